function renderFaults(model) {
  const faults = model.faults;
  const body = bodyOf("faults");
  if (!faults.total) {
    body.replaceChildren(none("None on record."));
    return;
  }
  const shown = faults.rows.slice(0, 100);
  const sum = Object.entries(faults.counts).map(([event, times]) => `${count(times)} ${event}`).join(", ");
  const more = faults.total > shown.length ? ` The first ${shown.length} of ${count(faults.total)}:` : "";
  body.replaceChildren(
    make("p", { class: "hint" }, `${sum}.${more}`),
    make("div", { class: "scroll short", role: "region", tabindex: 0, "aria-label": "Table of faults" }, make("table", {},
      make("thead", {}, make("tr", {}, ["at", "round", "where", "what", "detail"].map((each) => make("th", { scope: "col" }, each)))),
      make("tbody", {}, shown.map((row) => make("tr", {},
        make("td", { class: "number" }, duration(row.seconds)), make("td", {}, row.round || ""), make("td", { class: "name" }, row.node),
        make("td", { class: "name" }, row.event), make("td", { class: "what" }, row.detail)))))));
}
