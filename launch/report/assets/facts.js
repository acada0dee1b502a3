const OUTCOMES = {
  completed: "Finished", failed: "Failed", aborted: "Stopped", truncated: "Record cut off", altered: "Record altered", running: "In progress",
};

function renderHead(model) {
  byId("run").textContent = model.title;
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
  document.title = `${model.title} \u2014 Parley`;
  const emulated = model.emulation
    ? "This page contains the truth, which only an emulation knows; `parley report --public` leaves it out. "
    : "This page was made from the public record alone. ";
  const medium = model.medium === "memory" ? "The run took place in memory and in virtual time. " : "";
  byId("footer").textContent = `${emulated}${medium}Made by Parley ${model.software}. It loads nothing from the network.`;
}

function fact(term, ...description) {
  return [make("dt", {}, term), make("dd", {}, ...description)];
}

function renderFacts(model) {
  const facts = model.facts;
  const rows = [];
  // With bins at private quantiles the levels in the question are fine levels; the answer knows the bins.
  const measured = model.answer?.measured || [facts.measured, model.shape].filter(Boolean).join(", ");
  if (measured) rows.push(fact("Measured", measured));
  if (model.columns.length) rows.push(fact(model.columns.length > 1 ? "Columns" : "Column", model.columns.flatMap((each, index) => index ? [make("br"), each] : [each])));
  if (model.origin) rows.push(fact("Data", model.origin));
  if (facts.epsilon !== null) {
    rows.push(fact("Privacy", `\u03b5 = ${figure(facts.epsilon)}` + (facts.delta ? `, \u03b4 = ${figure(facts.delta)}` : "")));
  }
  if (facts.trusts && facts.trusts !== "nobody") rows.push(fact("Users trust", `the ${facts.trusts}`));
  if (facts.users) {
    const replied = facts.replied === null || model.outcome === "running" ? "" : facts.replied === facts.users ? ", all answered" : `, ${count(facts.replied)} answered every round they were asked in`;
    rows.push(fact("Users", `${count(facts.users)}${replied}`));
  }
  rows.push(fact("Rounds", facts.declared === null ? `${facts.observed} observed` : `${facts.declared} declared, ${facts.observed} observed`));
  if (facts.bytes_up !== null) rows.push(fact("Per user", `${size(facts.bytes_up)} sent, ${size(facts.bytes_down)} received`));
  rows.push(fact("Time", duration(facts.seconds)));
  if (facts.began) rows.push(fact("Started", new Date(facts.began * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC"));
  const inside = [fact("Run", model.run)];
  if (facts.protocol) inside.push(fact("Protocol", facts.protocol, facts.interaction ? `, ${facts.interaction}` : ""));
  inside.push(fact("Processes", plural(facts.nodes, "user node")), fact("Record", plural(facts.records, "message")));
  inside.push(...Object.entries(facts.parameters).map(([name, value]) => fact(name, value)));
  const experts = [make("dl", { class: "facts" }, inside.flat())];
  if (model.script) experts.push(...scripts(model.script));
  bodyOf("facts").replaceChildren(make("dl", { class: "facts" }, rows.flat()), folded("experts", "For experts", make("div", {}, experts)));
}

// Stays open when the page is drawn anew.
function folded(name, title, content) {
  const open = byId(`folded-${name}`)?.open;
  return make("details", { id: `folded-${name}`, open: open || null }, make("summary", {}, title), content);
}

// The protocol as a state machine: a state per round, the end, and what the analyst does in between.
function scripts({ rounds, analyst }) {
  const end = make("li", {}, make("b", {}, "ended"), " \u2014 the estimate");
  return [
    make("h3", {}, "The protocol, round by round"), make("ol", { class: "script" }, rounds.map(scripted), end),
    make("p", {}, make("b", {}, "Analyst"), ` \u2014 ${analyst.says}`), make("pre", { class: "script", tabindex: 0 }, make("code", {}, analyst.steps)),
  ];
}

function scripted(round) {
  const shapes = (columns) => Object.entries(columns).map(([name, kind]) => `${name} ${kind}`).join(", ");
  const loss = (epsilon) => epsilon === null ? "unbounded before the shuffler" : `\u03b5 = ${figure(epsilon)}`;
  const broadcast = shapes(round.broadcast);
  return make("li", {},
    make("b", {}, round.name), ` \u2014 ${round.says}`,
    make("p", { class: "hint" }, `${broadcast ? `Broadcast: ${broadcast}. ` : ""}${loss(round.epsilon)} from ${round.answers}.`),
    make("ul", {}, round.sends.map((send) => make("li", {}, make("code", {}, send.name), ` by ${send.randomizer}, ${loss(send.epsilon)}: ${shapes(send.columns)}`))));
}

function renderProgress(model) {
  const section = byId("progress");
  section.hidden = model.outcome !== "running";
  if (section.hidden) return;
  const rounds = model.rounds, declared = model.facts.declared || 0;
  const last = rounds.at(-1);
  const words = last
    ? `Round ${last.number}${declared ? ` of ${declared}` : ""}: ${count(last.replies)}${last.due === null ? "" : ` of ${count(last.due)}`} replies`
    : `Waiting for the nodes: ${plural(model.facts.nodes, "node")} so far.`;
  const meters = make("div", { class: "meters" });
  for (let index = 0; index < Math.min(12, Math.max(rounds.length, declared)); index += 1) meters.append(meter(rounds[index], index + 1));
  bodyOf("progress").replaceChildren(make("p", { id: "progress-words" }, words), meters);
}

function meter(round, number) {
  const share = !round ? 0 : round.seconds !== null ? 1 : round.due ? Math.min(1, round.replies / round.due) : 0;
  const bar = make("div", { class: tone(number) });
  bar.style.width = `${(100 * share).toFixed(1)}%`;
  return make("div", {
    class: "meter", role: "progressbar", "aria-label": `Replies in round ${number}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share),
  }, bar);
}
