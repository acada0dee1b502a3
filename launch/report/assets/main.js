let model = JSON.parse(byId("data").textContent);

function renderAll() {
  hideTip();
  renderHead(model);
  renderProgress(model);
  renderAnswer(model);
  renderFacts(model);
  renderSequence(model);
  renderReplies(model);
  renderLoss(model);
  renderBudget(model);
  renderFaults(model);
  renderMessages(model);
}

let seenWidth = 0;
function renderOnResize() {
  if (document.documentElement.clientWidth === seenWidth) return;
  seenWidth = document.documentElement.clientWidth;
  renderAll();
}

// While the run goes on, its server sends the model anew; the last one is the report, which then stays as it is.
function follow() {
  const source = new EventSource("events");
  source.addEventListener("model", (event) => { model = JSON.parse(event.data); renderAll(); });
  source.addEventListener("end", (event) => { source.close(); model = JSON.parse(event.data); renderAll(); });
  source.addEventListener("error", () => {
    const alert = byId("alert");
    alert.textContent = "The connection to the run was lost. The report is written to the folder of the run when it ends.";
    alert.hidden = false;
  });
}

startFilters(() => model);
renderOnResize();
let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(renderOnResize, 100); });
addEventListener("scroll", hideTip, { passive: true });
if (model.outcome === "running") follow();
