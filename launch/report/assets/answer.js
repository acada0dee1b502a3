function renderAnswer(model) {
  const body = bodyOf("answer");
  const answer = model.answer;
  if (!answer) {
    const words = model.outcome === "running" ? "The analyst has not answered yet." : "There is no answer on record.";
    body.replaceChildren(none(words), checks(model));
    return;
  }
  const half = (answer.high - answer.low) / 2;
  // What bins hide moves an interval away from the middle, and so does the end of what is possible.
  const even = Math.abs(answer.high + answer.low - 2 * answer.estimate) < half / 20;
  const users = model.facts.users ? ` of ${plural(model.facts.users, "user")}` : "";
  const parts = [
    make("p", { class: "big" }, figure(answer.estimate), " ", even ? make("small", {}, `\u00b1 ${figure(half, 3)}`) : null),
    make("p", { class: "say" },
      `${model.facts.measured || "The answer"}${users}, with 95% confidence between ${figure(answer.low)} and ${figure(answer.high)}.`),
  ];
  if (half === 0 && (answer.estimate < answer.low || answer.estimate > answer.high)) {
    parts.push(make("p", { class: "say hint" }, "Noise was so large that no possible value lies in the interval."));
  }
  if (answer.measured) parts.push(make("p", { class: "say hint" }, `Measured: ${answer.measured}.`));
  if (answer.hidden !== undefined) {
    const [low, high] = answer.interval95_noise;
    parts.push(make("p", { class: "say hint" },
      `Bins hide about ${figure(answer.hidden, 2)} \u00b1 ${figure(answer.hidden_error, 2)} of it. The interval covers that; ` +
      `noise alone gives ${figure(low)} to ${figure(high)}.`));
  }
  if (answer.truth !== undefined) {
    parts.push(make("p", { class: "say hint" },
      `Without privacy it would be ${figure(answer.truth)}` +
      (answer.truth_unbinned === undefined ? "" : ` in these bins, and ${figure(answer.truth_unbinned)} without bins`) +
      `, which only an emulation knows. The error is ${figure(answer.error, 3)}; the prediction was about ` +
      `${figure(answer.predicted_rmse, 3)}.` +
      (answer.limit === undefined ? "" :
        ` With this many users no unbiased protocol errs by less than about ${figure(answer.limit, 3)} on these data.`)));
  }
  for (const words of model.source || []) parts.push(make("p", { class: "say hint" }, `${words}.`));
  if (answer.silent) {
    parts.push(make("p", { class: "say hint" },
      `Wallets refused ${plural(answer.silent, "reply")}. Which ones refuse depends on earlier replies, ` +
      "and the interval does not cover that."));
  }
  body.replaceChildren(...parts, drawAnswer(answer, widthOf(body)), checks(model));
}

const CHECKS = {
  integrity: ["record intact", "record damaged", "record not checked"],
  rounds: ["rounds as declared", "rounds not as declared", "rounds not checked"],
  authorship: ["signatures valid", "signatures invalid", "signatures uncertain"],
  privacy: ["privacy kept", "privacy broken", "privacy uncertain"],
  result: ["answer recomputed", "answer differs", "answer not recomputed"],
};
const SIGNS = { pass: "\u2713", fail: "\u2717", unknown: "?" };

function checks(model) {
  return make("ul", { class: "checks", "aria-label": "Checks" }, Object.entries(model.verdicts).map(([name, check]) => {
    const words = CHECKS[name]?.[["pass", "fail", "unknown"].indexOf(check.verdict)] || `${name}: ${check.verdict}`;
    return make("li", {}, make("span", { class: `pill ${check.verdict}` }, `${SIGNS[check.verdict] || ""} ${words}`),
      check.reason ? make("span", { class: "reason" }, check.reason) : null);
  }));
}

function drawAnswer(answer, width) {
  const height = 112, y = 62, pad = 14;
  // Where the interval covers what bins hide, it is an interval for the truth without bins.
  const unbinned = answer.hidden !== undefined && answer.truth_unbinned !== undefined;
  const truth = unbinned ? answer.truth_unbinned : answer.truth;
  const known = truth !== undefined ? [truth] : [];
  let low = Math.min(answer.low, answer.estimate, ...known), high = Math.max(answer.high, answer.estimate, ...known);
  const margin = (high - low || 1) * 0.08;
  const bounds = answer.bounds;
  // The range of possible values is shown where it is near; a narrow interval should not shrink to a point for it.
  const near = bounds && bounds[1] - bounds[0] < 6 * (high - low);
  if (near) { low = Math.min(low, bounds[0]); high = Math.max(high, bounds[1]); }
  const x = scale(low - margin, high + margin, pad, width - pad);
  const inside = `Estimate ${figure(answer.estimate)}, interval ${figure(answer.low)} to ${figure(answer.high)}` +
    (known.length ? `, truth ${figure(truth)}${unbinned ? " without bins" : ""}` : "");
  const shapes = [];
  if (near) {
    shapes.push(draw("rect", { class: "range", x: x(bounds[0]), width: x(bounds[1]) - x(bounds[0]), y: y - 22, height: 44 }));
    shapes.push(label((x(bounds[0]) + x(bounds[1])) / 2, 14, width, "possible values", "tiny"));
    shapes.push(draw("path", { class: "axis", d: `M${x(bounds[0])} 24v-4H${x(bounds[1])}v4` }));
  }
  shapes.push(draw("rect", { class: "interval", x: x(answer.low), width: Math.max(1, x(answer.high) - x(answer.low)), y: y - 9, height: 18, rx: 9 }));
  shapes.push(axisBelow(x, y + 26, ticks(low - margin, high + margin, width / 90), pad, width - pad));
  if (known.length) {
    const place = x(truth);
    shapes.push(draw("path", { class: "truth", d: `M${place} ${y - 10}l8 10l-8 10l-8-10z` }));
  }
  shapes.push(draw("circle", { class: "estimate", cx: x(answer.estimate), cy: y, r: 7 }));
  const close = known.length && Math.abs(x(truth) - x(answer.estimate)) < 90;
  const left = known.length && truth < answer.estimate ? 1 : -1;
  const shift = close ? (96 - Math.abs(x(truth) - x(answer.estimate))) / 2 : 0;
  shapes.push(label(x(answer.estimate) + left * shift, y - 16, width, "estimate", "estimate-text"));
  if (known.length) shapes.push(label(x(truth) - left * shift, y - 16, width, "truth", "truth-text"));
  return picture(width, height, inside, shapes);
}
