// The table of messages and its filters. The state outlives a new model, so that a live page keeps what was typed.
const PAGE = 50;
const filters = { round: "", kind: "", who: "", shown: PAGE };

function usersOf(row) {
  if (!row.users) return null;
  if (!row.list) {
    let sum = 0;
    row.list = new Set(row.users.map((step) => (sum += step)));
  }
  return row.list;
}
function speaksFor(row, user) {
  if (row.first === undefined || user < row.first || user > row.last) return false;
  const list = usersOf(row);
  return list ? list.has(user) : true;
}
function passes(row) {
  if (filters.round !== "" && String(row.round) !== filters.round) return false;
  if (filters.kind !== "" && row.kind !== filters.kind) return false;
  const who = filters.who.trim().toLowerCase();
  if (who === "") return true;
  if (/^\d+$/.test(who)) return speaksFor(row, Number(who));
  return row.sender.toLowerCase().includes(who) || (row.node || "").toLowerCase().includes(who);
}

function options(select, values, every) {
  const before = select.value;
  const wanted = ["", ...values];
  if (wanted.length === select.options.length && wanted.every((value, index) => select.options[index].value === value)) return;
  select.replaceChildren(...wanted.map((value) => make("option", { value }, value === "" ? every : value)));
  select.value = wanted.includes(before) ? before : "";
}

function renderMessages(model) {
  const rows = model.messages.rows;
  const rounds = [...new Set(rows.map((row) => row.round).filter((round) => round !== null))].sort((a, b) => a - b);
  options(byId("filter-round"), rounds.map(String), "all");
  options(byId("filter-kind"), [...new Set(rows.map((row) => row.kind))].sort(), "all");
  showMessages(model);
}

function showMessages(model) {
  const rows = model.messages.rows, total = model.messages.total;
  const found = rows.filter(passes);
  const shown = found.slice(0, filters.shown);
  const left = total > rows.length ? ` This page holds ${count(rows.length)} of the ${count(total)} messages on record; \`parley show\` lists all.` : "";
  const loose = /^\d+$/.test(filters.who.trim()) && found.some((row) => row.gaps) ? " Some of these frames cover a range that includes this user, but may hold no reply from this user." : "";
  byId("filter-count").textContent = `Showing ${count(shown.length)} of ${plural(found.length, "matching message")}.${left}${loose}`;
  const table = make("table", {},
    make("thead", {}, make("tr", {}, [["#", "number"], ["at", "number"], ["from"], ["kind"], ["round", "number"], ["bytes", "number"], ["what"]]
      .map(([words, kind]) => make("th", { scope: "col", class: kind }, words)))),
    make("tbody", {}, shown.map((row) => make("tr", {},
      make("td", { class: "number" }, row.sequence), make("td", { class: "number" }, duration(row.seconds)), make("td", { class: "name" }, row.sender),
      make("td", {}, row.kind), make("td", { class: "number" }, row.round ?? ""), make("td", { class: "number" }, count(row.bytes)), make("td", { class: "what" }, row.what)))));
  const parts = [make("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": "Table of messages" }, table)];
  if (found.length > shown.length) {
    const more = make("button", { type: "button" }, `Show ${count(Math.min(PAGE, found.length - shown.length))} more`);
    more.addEventListener("click", () => { filters.shown += PAGE; showMessages(model); });
    parts.push(more);
  }
  bodyOf("messages").replaceChildren(...parts);
}

function startFilters(current) {
  const form = document.querySelector(".filters");
  const read = () => {
    filters.round = byId("filter-round").value;
    filters.kind = byId("filter-kind").value;
    filters.who = byId("filter-who").value;
    filters.shown = PAGE;
    showMessages(current());
  };
  form.addEventListener("input", read);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(read));
}
