const OUTCOMES = {
  completed: "completed", failed: "failed", aborted: "stopped", truncated: "record cut off", altered: "record altered", running: "running",
};

function renderHead(model) {
  byId("run").textContent = model.run;
  const pill = byId("outcome");
  pill.textContent = OUTCOMES[model.outcome] || model.outcome;
  pill.className = `pill ${model.outcome}`;
  const said = [];
  if (model.reason) said.push(model.reason);
  if (model.problem) said.push(model.problem);
  const alert = byId("alert");
  alert.hidden = !said.length;
  const text = said.join(" \u2014 ");
  if (alert.textContent !== text) alert.textContent = text;
  document.title = `${model.run} \u2014 Parley`;
  const emulated = model.emulation
    ? "This page holds what only an emulation knows (the truth). `parley report --public` leaves that out. "
    : "This page was made from the public record alone. ";
  byId("footer").textContent = `${emulated}Made by Parley ${model.software}. It loads nothing from anywhere.`;
}

function fact(term, ...description) {
  return [make("dt", {}, term), make("dd", {}, ...description)];
}

function renderFacts(model) {
  const facts = model.facts;
  const rows = [];
  if (facts.protocol) rows.push(fact("Protocol", facts.protocol, facts.interaction ? `, ${facts.interaction}` : ""));
  if (facts.statistic) rows.push(fact("Statistic", facts.statistic));
  if (facts.epsilon !== null) {
    rows.push(fact("Privacy", `\u03b5 = ${figure(facts.epsilon)}` + (facts.delta ? `, \u03b4 = ${figure(facts.delta)}` : "")));
  }
  if (facts.users) {
    const replied = facts.replied === null ? "" : `, ${count(facts.replied)} of them answered all`;
    rows.push(fact("Users", `${count(facts.users)}${replied}`));
  }
  rows.push(fact("Nodes", count(facts.nodes)));
  rows.push(fact("Rounds", facts.declared === null ? `${facts.observed} observed` : `${facts.declared} declared, ${facts.observed} observed`));
  if (facts.bytes_up !== null) rows.push(fact("Bytes a user", `${size(facts.bytes_up)} up, ${size(facts.bytes_down)} down`));
  rows.push(fact("Time", duration(facts.seconds)));
  if (facts.began) rows.push(fact("Began", new Date(facts.began * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC"));
  const parameters = Object.entries(facts.parameters);
  const more = parameters.length
    ? make("details", {}, make("summary", {}, "Parameters of the protocol"),
        make("dl", { class: "facts" }, parameters.map(([name, value]) => fact(name, value))))
    : null;
  const opened = bodyOf("facts").querySelector("details")?.open;
  if (more && opened) more.open = true;
  bodyOf("facts").replaceChildren(make("dl", { class: "facts" }, rows.flat()), ...(more ? [more] : []));
}

function renderProgress(model) {
  const section = byId("progress");
  section.hidden = model.outcome !== "running";
  if (section.hidden) return;
  const round = model.rounds.at(-1);
  const declared = model.facts.declared;
  let words = `Waiting for the nodes: ${plural(model.facts.nodes, "node")} so far.`, share = 0;
  if (round) {
    const due = round.due === null ? "" : ` of ${count(round.due)}`;
    words = `Round ${round.number}${declared ? ` of ${declared}` : ""}: ${count(round.replies)}${due} replies`;
    share = round.due ? Math.min(1, round.replies / round.due) : 0;
  }
  const bar = make("div", {});
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  const meter = make("div", {
    class: "meter", role: "progressbar", "aria-label": "Replies in this round", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share),
  }, bar);
  bodyOf("progress").replaceChildren(make("p", { id: "progress-words" }, words), meter);
}
