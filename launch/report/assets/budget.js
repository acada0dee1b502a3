function renderBudget(model) {
  const body = bodyOf("budget");
  const answer = model.answer;
  if (!answer || !model.budget) {
    body.replaceChildren(none(model.outcome === "running" ? "Available when the run is over." : "There is no answer on record."));
    return;
  }
  const rows = model.budget.sources.map((each) => ({ ...each }));
  rows.push({ source: "total", predicted: answer.predicted_rmse, realised: answer.error ?? null, total: true });
  const known = rows.some((row) => row.realised !== null);
  const notes = [];
  if (model.budget.reason) notes.push(`By source: not available, ${model.budget.reason}.`);
  notes.push(known ? "Bar: predicted standard deviation. Diamond: the size of the error in this run." : "Bar: predicted standard deviation. Without the witness the errors of this run are unknown.");
  if (model.budget.sources.length > 1) notes.push("Variances add up, standard deviations do not.");
  body.replaceChildren(drawBudget(rows, widthOf(body)), make("p", { class: "hint" }, notes.join(" ")), budgetTable(rows, known));
}

function drawBudget(rows, width) {
  const step = 40, height = rows.length * step + 30, left = 6, right = width - 14;
  const most = Math.max(...rows.flatMap((row) => [row.predicted || 0, Math.abs(row.realised || 0)])) || 1;
  const x = scale(0, most, left, right);
  const shapes = rows.map((row, index) => {
    const y = index * step + 16;
    const parts = [draw("text", { class: row.total ? "strong" : "", x: left, y: y - 3 }, row.source)];
    if (row.predicted !== null) parts.push(draw("rect", { class: "predicted", x: left, y: y + 2, height: 12, rx: 3, width: Math.max(2, x(row.predicted) - left) }));
    if (row.realised !== null) {
      const place = x(Math.abs(row.realised));
      parts.push(draw("path", { class: "realised", d: `M${place} ${y - 1}l7 9l-7 9l-7-9z` }));
    }
    return draw("g", {}, parts);
  });
  const words = rows.map((row) => `${row.source}: predicted ${figure(row.predicted, 3)}, in this run ${figure(row.realised, 3)}`).join("; ");
  return picture(width, height, words, shapes, axisBelow(x, height - 24, ticks(0, most, width / 100), left, right));
}

function budgetTable(rows, known) {
  const all = rows.at(-1).predicted ** 2;
  return make("details", {}, make("summary", {}, "As numbers"), make("table", {},
    make("thead", {}, make("tr", {}, ["source", "predicted", "share of variance", ...(known ? ["in this run"] : [])].map((each, index) => make("th", { scope: "col", class: index ? "number" : null }, each)))),
    make("tbody", {}, rows.map((row) => make("tr", {},
      make("th", { scope: "row" }, row.source),
      make("td", { class: "number" }, figure(row.predicted, 3)),
      make("td", { class: "number" }, row.predicted === null || !all ? "" : `${(100 * row.predicted ** 2 / all).toFixed(1)}%`),
      known ? make("td", { class: "number" }, row.realised === null ? "" : figure(row.realised, 3)) : null)))));
}
