function renderReplies(model) {
  const body = bodyOf("replies");
  if (!model.rounds.length) {
    body.replaceChildren(none("No round was opened."));
    return;
  }
  const grid = make("div", { class: "multiples" });
  body.replaceChildren(grid);
  const most = 12;
  for (const round of model.rounds.slice(0, most)) grid.append(make("figure", { class: tone(round.number) }));
  [...grid.children].forEach((each, index) => fillRound(each, model.rounds[index], model.outcome));
  if (model.rounds.length > most) body.append(make("p", { class: "hint" }, `${model.rounds.length - most} more rounds are not drawn.`));
}

function fillRound(place, round, outcome) {
  const width = Math.max(140, Math.floor(place.clientWidth)), height = 130, left = 4, bottom = height - 24;
  const last = round.series.at(-1);
  const end = Math.max(round.seconds || 0, last ? last[0] : 0) || 1;
  const most = Math.max(round.due || 0, round.replies, 1);
  const x = scale(0, end, left, width - 6), y = scale(0, most, bottom, 14);
  let path = `M${x(0)} ${y(0)}`;
  let before = 0;
  for (const [time, replies] of round.series) {
    path += `L${x(time).toFixed(1)} ${y(before).toFixed(1)}L${x(time).toFixed(1)} ${y(replies).toFixed(1)}`;
    before = replies;
  }
  path += `L${x(end).toFixed(1)} ${y(before).toFixed(1)}`;
  const due = round.due === null ? "" : ` of ${count(round.due)}`;
  const lasted = round.seconds === null ? (outcome === "running" ? "open" : "never closed") : duration(round.seconds);
  const words = `Round ${round.number}: ${count(round.replies)}${due} replies, ${lasted}`;
  const shapes = [
    draw("path", { class: "area", d: `${path}V${bottom}H${left}z` }),
    draw("path", { class: "curve", d: path }),
    draw("line", { class: "axis", x1: left, x2: width - 6, y1: bottom, y2: bottom }),
    draw("text", { class: "tiny", x: left, y: bottom + 15 }, "0"),
    draw("text", { class: "tiny", x: width - 6, y: bottom + 15, "text-anchor": "end" }, duration(end)),
  ];
  if (round.due !== null) {
    shapes.push(draw("line", { class: "due", x1: left, x2: width - 6, y1: y(round.due), y2: y(round.due) }));
    shapes.push(draw("text", { class: "tiny", x: left, y: y(round.due) - 3 }, `${count(round.due)} due`));
  }
  const name = round.name ? ` ${round.name}` : "";
  const missing = round.missing ? `, ${plural(round.missing, "user")} missing` : "";
  place.replaceChildren(picture(width, height, words, shapes),
    make("figcaption", {}, make("b", {}, `Round ${round.number}`), `${name}: ${count(round.replies)} replies in ${plural(round.frames, "frame")}, ${lasted}${missing}`));
}
