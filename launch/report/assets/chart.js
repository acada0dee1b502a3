// Scales and axes.
function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}
function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((each) => each * power >= raw * 0.999) || 10);
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) found.push(index * step || 0);
  return found;
}
const tidy = (value) => signed(String(Number(value.toPrecision(6))));
function axisBelow(x, y, values, from, to) {
  return draw("g", { "aria-hidden": "true" },
    draw("line", { class: "axis", x1: from, x2: to, y1: y, y2: y }),
    values.map((value) => draw("g", {},
      draw("line", { class: "axis", x1: x(value), x2: x(value), y1: y, y2: y + 5 }),
      draw("text", { class: "small", x: x(value), y: y + 18, "text-anchor": "middle" }, tidy(value)))));
}
// A label that stays inside the picture.
function label(x, y, width, text, kind) {
  const half = text.length * 3.5;
  const anchor = x < half ? "start" : x > width - half ? "end" : "middle";
  const place = anchor === "start" ? Math.max(0, x - half) : anchor === "end" ? Math.min(width, x + half) : x;
  return draw("text", { class: kind, x: place, y, "text-anchor": anchor }, text);
}
const widthOf = (element) => Math.max(240, Math.floor(element.clientWidth));
function picture(width, height, words, ...children) {
  return draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words }, children);
}
