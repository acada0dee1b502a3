function renderLoss(model) {
  const body = bodyOf("loss");
  const loss = model.loss;
  if (!loss || loss.reason) {
    body.replaceChildren(none(model.outcome === "running" ? "Available when the run is over." : `Unknown: ${loss ? loss.reason : "the record cannot be read"}.`));
    return;
  }
  if (loss.crowd) {
    body.replaceChildren(...crowdWords(loss.crowd));
    return;
  }
  const part = loss.users === loss.population ? `all ${plural(loss.users, "user")}` : `${plural(loss.users, "user")} chosen at random from ${count(loss.population)}`;
  const words = `For ${part}: the largest loss is ${figure(loss.max_loss)}; the promise is at most \u03b5 = ${figure(loss.claim)}` +
    (loss.above_claim ? `; ${plural(loss.above_claim, "user")} lost more.` : ".");
  body.replaceChildren(
    drawLoss(loss, widthOf(body), words),
    make("p", { class: "hint" }, words + " A user\u2019s loss is exact: the logarithm of the largest ratio between the likelihoods of the user\u2019s messages under two inputs."));
}

// Behind a shuffler nobody has a loss of its own: what counts is how many replies there are to hide among.
function crowdWords(crowd) {
  const rows = [["Replies in the crowd", count(crowd.users)], ["Promised", `\u03b5 = ${figure(crowd.claim)}, \u03b4 = ${figure(crowd.delta)}`], ["\u03b4 for this many replies", figure(crowd.delta_shown, 3)]];
  if (crowd.local_loss !== null) rows.push(["Largest loss to the shuffler", figure(crowd.local_loss)]);
  return [
    make("dl", { class: "facts" }, rows.flatMap(([term, words]) => [make("dt", {}, term), make("dd", {}, words)])),
    make("p", { class: "hint" }, "Replies came through a shuffler without names, so no user has an exact loss of its own. Privacy rests on the number of replies and on the shuffler."),
  ];
}

function drawLoss(loss, width, words) {
  const height = 190, bottom = height - 42, top = 26, left = 44;
  const over = loss.above > 0;
  const end = loss.claim * (over ? 1.1 : 1.02);
  const x = scale(0, end, left, width - 12);
  const most = Math.max(...loss.counts, loss.above, 1);
  const y = scale(0, most, bottom, top);
  const bars = loss.counts.map((users, index) => {
    const from = x(loss.edges[index]), to = x(loss.edges[index + 1]);
    return users ? draw("rect", { class: "bar", x: from + 1, width: Math.max(1, to - from - 2), y: y(users), height: bottom - y(users) }) : null;
  });
  if (over) bars.push(draw("rect", { class: "bar above", x: x(loss.claim) + 3, width: x(end) - x(loss.claim) - 3, y: y(loss.above), height: bottom - y(loss.above) }));
  const levels = ticks(0, most, 3).filter((value) => Number.isInteger(value));
  return picture(width, height, words,
    levels.map((value) => [
      draw("line", { class: "grid", x1: left, x2: width - 12, y1: y(value), y2: y(value) }),
      draw("text", { class: "tiny", x: left - 6, y: y(value) + 3, "text-anchor": "end" }, count(value)),
    ]),
    bars,
    draw("line", { class: "claim", x1: x(loss.claim), x2: x(loss.claim), y1: top - 10, y2: bottom }),
    label(x(loss.claim), top - 14, width - 2, `\u03b5 = ${figure(loss.claim)}`, "claim-text"),
    axisBelow(x, bottom, ticks(0, loss.claim, width / 90), left, width - 12),
    draw("text", { class: "small", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "exact loss"),
    draw("text", { class: "tiny", x: 0, y: top - 14 }, "users"));
}
