// The conversation from top to bottom: analyst, board, then the lanes. Broadcasts cross all lanes, replies go to the board.
const GUTTER = 62, HEAD = 44;
const NAMES = { analyst: "analyst", board: "board", all: "everybody" };
let chosen = 0;

function placeLanes(diagram, width) {
  const least = diagram.by === "user" ? 22 : 58;
  const lanes = diagram.lanes.length;
  const analyst = GUTTER + 34, board = analyst + 92;
  const step = Math.min(240, Math.max(least, (width - 50 - board) / Math.max(1, lanes)));
  const first = board + Math.max(step, 43 + Math.min(86, step - 6) / 2);
  return { analyst, board, lane: (index) => first + index * step, end: first + Math.max(0, lanes - 1) * step, step };
}
const placeOf = (places, end) => (typeof end === "number" ? places.lane(end) : places[end]);

function layOut(diagram) {
  const roomy = diagram.lanes.length <= 12;
  let y = HEAD + 8;
  const bands = diagram.bands.map((band) => {
    const top = y;
    y += 26;
    const marks = band.marks.map((mark) => {
      y += mark.to === "all" ? 30 : roomy ? 17 : 9;
      const place = y;
      if (mark.to === "all") y += 6;
      return { mark, y: place };
    });
    y += 14;
    return { band, top, bottom: y, marks };
  });
  return { bands, height: y + HEAD };
}

function renderSequence(model) {
  const body = bodyOf("sequence");
  const diagram = model.diagram;
  if (!diagram.bands.length) {
    body.replaceChildren(none("No messages."));
    return;
  }
  const held = body.contains(document.activeElement) && document.activeElement.classList.contains("mark");
  const scrolled = body.querySelector(".scroll")?.scrollLeft || 0;
  const places = placeLanes(diagram, widthOf(body));
  const laid = layOut(diagram);
  const width = Math.max(places.end + Math.min(50, places.step / 2 + 8), widthOf(body));
  const marks = draw("g", { role: "listbox", "aria-label": "Messages in the order of the record", "aria-orientation": "vertical", "aria-describedby": "sequence-hint" });
  const drawn = draw("svg", { class: "sequence", width, height: laid.height, viewBox: `0 0 ${width} ${laid.height}` },
    laid.bands.map((each) => drawBand(each, width)), lifelines(diagram, places, laid.height), marks);
  laid.bands.forEach((each) => each.marks.forEach((placed) => marks.append(drawMark(placed, each.band, places, diagram))));
  roving(marks);
  const scroll = make("div", { class: "scroll" }, drawn);
  const notes = make("ul", { class: "notes" }, diagram.notes.map((note) => make("li", {}, note)));
  body.replaceChildren(scroll, legend(diagram), notes);
  scroll.scrollLeft = scrolled;
  if (held) marks.children[Math.min(chosen, marks.children.length - 1)].focus({ preventScroll: true });
}

function drawBand(each, width) {
  return draw("g", { class: tone(each.band.round), "aria-hidden": "true" },
    draw("rect", { class: "band", x: 0, y: each.top, width, height: each.bottom - each.top - 6, rx: 6 }),
    draw("rect", { class: "band-edge", x: 0, y: each.top, width: 4, height: each.bottom - each.top - 6, rx: 2 }),
    draw("text", { class: "band-title", x: 12, y: each.top + 18 }, each.band.title));
}

function lifelines(diagram, places, height) {
  const parties = [["analyst", places.analyst, ""], ["board", places.board, ""], ...diagram.lanes.map((lane, index) => [lane.label, places.lane(index), lane.title])];
  const wide = Math.min(86, places.step - 6);
  return draw("g", { "aria-hidden": "true" }, parties.map(([words, x, title], index) => {
    const box = index < 2 ? 70 : Math.max(18, wide);
    const fits = Math.floor(box / 6.6);
    const text = words.length > fits ? words.slice(0, Math.max(2, fits - 1)) + "\u2026" : words;
    const head = (y) => draw("g", {},
      title ? draw("title", {}, title) : null,
      draw("rect", { class: "head", x: x - box / 2, y, width: box, height: 24, rx: 6 }),
      draw("text", { class: index < 2 ? "strong" : box < 30 ? "tiny" : "small", x, y: y + 16, "text-anchor": "middle" }, text));
    return draw("g", {}, draw("line", { class: "life", x1: x, x2: x, y1: 26, y2: height - 30 }), head(4), head(height - 30));
  }));
}

function endName(end, diagram) {
  if (Array.isArray(end)) return end.length === 1 ? endName(end[0], diagram) : plural(end.length, "lane");
  return typeof end === "number" ? diagram.lanes[end].title : NAMES[end] || end;
}

function drawMark({ mark, y }, band, places, diagram) {
  const kinds = ["mark", mark.kind, tone(band.round)];
  if (mark.broken) kinds.push("broken");
  if (mark.sign) kinds.push("sign");
  if (mark.to === "all") kinds.push("broadcast");
  if (["close", "roster", "ready"].includes(mark.kind)) kinds.push("quiet");
  const way = mark.sign ? `at ${endName(mark.start, diagram)}` : `from ${endName(mark.start, diagram)} to ${endName(mark.to, diagram)}`;
  const words = [`${mark.kind}, ${way}`, `after ${duration(mark.seconds)}, record ${mark.sequence}`, mark.title, ...mark.lines];
  const group = draw("g", { class: kinds.join(" "), role: "option", "aria-selected": "false", tabindex: -1, "aria-label": words.join(". ") });
  group.append(...shapes(mark, y, places, diagram));
  const show = () => showTip(group, words);
  group.addEventListener("pointerenter", show);
  group.addEventListener("pointerleave", hideTip);
  group.addEventListener("focus", () => { group.setAttribute("aria-selected", "true"); show(); });
  group.addEventListener("blur", () => { group.setAttribute("aria-selected", "false"); hideTip(); });
  return group;
}

function shapes(mark, y, places, diagram) {
  const from = placeOf(places, mark.start);
  if (mark.sign) {
    return [draw("circle", { class: "hit", cx: from, cy: y, r: 4 }), draw("circle", { class: "halo", cx: from, cy: y, r: 4 }), draw("path", { class: "tip-shape", d: `M${from} ${y - 6}l6 6l-6 6l-6-6z` })];
  }
  if (mark.to === "all") return broadcast(mark, y, from, places, diagram);
  const targets = Array.isArray(mark.to) ? mark.to.map(places.lane) : [placeOf(places, mark.to)];
  const to = targets.reduce((far, each) => (Math.abs(each - from) > Math.abs(far - from) ? each : far), targets[0]);
  const end = mark.broken ? from + (to - from) * 0.55 : to;
  const turn = Math.sign(end - from) || 1;
  const parts = [
    ...["hit", "halo"].map((kind) => draw("line", { class: kind, x1: from, x2: end, y1: y, y2: y })),
    draw("line", { class: "stem", x1: from, x2: mark.broken ? end : end - turn * 5, y1: y, y2: y }),
  ];
  if (mark.broken) parts.push(draw("path", { class: "cross", d: `M${end - 4} ${y - 4}l8 8m0-8l-8 8` }));
  else parts.push(...targets.map((x) => head(x, y, turn)));
  if (mark.replies > 1 && diagram.lanes.length <= 12) {
    parts.push(draw("text", { class: "tiny", x: from - turn * -6, y: y - 3, "text-anchor": turn < 0 ? "end" : "start" }, count(mark.replies)));
  }
  return parts;
}
const head = (x, y, turn) => draw("path", { class: "tip-shape", d: `M${x} ${y}l${-turn * 8} -3.5v7z` });

function broadcast(mark, y, from, places, diagram) {
  const last = diagram.lanes.length ? places.end : places.board;
  const first = mark.start === "board" ? places.analyst : from;
  const parts = [
    ...["hit", "halo"].map((kind) => draw("line", { class: kind, x1: first, x2: last, y1: y, y2: y })),
    draw("line", { class: "stem", x1: first, x2: last - 5, y1: y, y2: y }),
    draw("circle", { class: "dot", cx: from, cy: y, r: 3.5 }),
    head(last, y, 1),
  ];
  if (mark.start === "board") parts.push(head(places.analyst, y, -1));
  for (let index = 0; index < diagram.lanes.length - 1; index += 1) parts.push(draw("circle", { class: "dot", cx: places.lane(index), cy: y, r: 2 }));
  const room = Math.max(12, Math.floor((last - from) / 6.2));
  const words = `${mark.kind}: ${mark.title}`;
  parts.push(draw("text", { class: "small", x: from + 8, y: y - 6 }, words.length > room ? words.slice(0, room - 1) + "\u2026" : words));
  parts.push(draw("text", { class: "tiny", x: GUTTER - 8, y: y + 3, "text-anchor": "end" }, duration(mark.seconds)));
  return parts;
}

// One stop for the Tab key; the arrow keys go on from there.
function roving(marks) {
  const all = [...marks.children];
  chosen = Math.min(chosen, all.length - 1);
  if (all.length) all[Math.max(0, chosen)].setAttribute("tabindex", 0);
  const choose = (index) => {
    const next = Math.max(0, Math.min(all.length - 1, index));
    all[chosen]?.setAttribute("tabindex", -1);
    chosen = next;
    all[next].setAttribute("tabindex", 0);
    all[next].focus();
  };
  marks.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: chosen + 1, ArrowRight: chosen + 1, ArrowUp: chosen - 1, ArrowLeft: chosen - 1, Home: 0, End: all.length - 1, PageDown: chosen + 10, PageUp: chosen - 10 };
    if (event.key === "Escape") hideTip();
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(moves[event.key]);
  });
  marks.addEventListener("click", (event) => {
    const index = all.indexOf(event.target.closest(".mark"));
    if (index >= 0) choose(index);
  });
}

function showTip(group, words) {
  const tip = byId("tip");
  tip.replaceChildren(make("b", {}, words[2]), ...[words[0], words[1], ...words.slice(3)].map((each) => make("span", {}, each)));
  tip.hidden = false;
  const shape = group.querySelector(".halo").getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const left = Math.max(12, Math.min(innerWidth - box.width - 12, shape.left + shape.width / 2 - box.width / 2));
  const below = shape.bottom + 10 + box.height < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? shape.bottom + 10 : Math.max(8, shape.top - box.height - 10)}px`;
}
function hideTip() { byId("tip").hidden = true; }

function legend(diagram) {
  const marks = diagram.bands.flatMap((band) => band.marks);
  const entries = [
    ["broadcast", "broadcast to everybody", marks.some((mark) => mark.to === "all")],
    ["plain", diagram.by === "user" ? "reply" : "replies from a lane, with their count", marks.some((mark) => mark.kind === "replies")],
    ["quiet", "transport messages", marks.some((mark) => mark.kind === "ready")],
    ["broken", "lost or missing", marks.some((mark) => mark.broken)],
    ["reminder", "the board asks again", marks.some((mark) => mark.kind === "reminder")],
    ["sign", "other fault", marks.some((mark) => mark.sign)],
  ];
  return make("ul", { class: "legend" }, entries.filter((entry) => entry[2]).map(([kind, words]) => {
    const line = draw("line", { class: "stem", x1: 0, x2: 26, y1: 7, y2: 7 });
    const tip = kind === "broken" ? draw("path", { class: "cross", d: "M27 3l8 8m0-8l-8 8" }) : draw("path", { class: "tip-shape", d: "M36 7l-9-4v8z" });
    const parts = kind === "sign" ? [draw("path", { class: "tip-shape", d: "M18 1l6 6l-6 6l-6-6z" })] : [line, tip];
    return make("li", {}, draw("svg", { class: "sequence", width: 36, height: 14, "aria-hidden": "true" }, draw("g", { class: `mark tone-1 ${kind}` }, parts)), words);
  }));
}
