// Elements and words. Text from the record only ever becomes text nodes and attribute values, never markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const byId = (id) => document.getElementById(id);
const bodyOf = (id) => byId(id).querySelector(".body");
const none = (text) => make("p", { class: "none" }, text);

const MINUS = "\u2212";
const signed = (text) => text.replace("-", MINUS);
function figure(value, digits = 4) {
  if (value === null || value === undefined) return "unknown";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return signed(value.toExponential(2).replace(/\.?0+e/, "e"));
  return signed(String(Number(value.toPrecision(digits))));
}
const count = (value) => value.toLocaleString("en-US");
const plural = (value, noun) => `${count(value)} ${value === 1 ? noun : noun === "reply" ? "replies" : noun + "s"}`;
function duration(seconds) {
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  return seconds < 120 ? `${Number(seconds.toPrecision(3))} s` : `${(seconds / 60).toFixed(1)} min`;
}
function size(bytes) {
  if (bytes < 1e4) return `${bytes < 100 ? bytes.toFixed(1) : count(Math.round(bytes))} B`;
  return bytes < 1e6 ? `${Number((bytes / 1e3).toPrecision(3))} kB` : `${Number((bytes / 1e6).toPrecision(3))} MB`;
}
const tone = (round) => `tone-${round ? ((round - 1) % 4) + 1 : 0}`;
