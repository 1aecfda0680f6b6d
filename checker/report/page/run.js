
// --- the page ------------------------------------------------------------------------------------------------------

const given = JSON.parse(document.getElementById("data").textContent), book = given.rules;
const head = document.getElementById("head"), main = document.getElementById("run");
let shown = 0, at = 0, everything = false;
const many = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const run = () => given.runs[shown];
const current = () => at, place = i => { at = i === undefined ? last() : Math.max(0, Math.min(last(), i)); };

// A source such as "B4, 966.6": each number that the rulebook has unfolds what it says.
function ruled(source) {
  const holder = el("span", { class: "numbers" }), said = el("div", { class: "rule", hidden: true });
  let open = null;
  for (const number of source.split(/, */).filter(Boolean)) {
    if (!Object.hasOwn(book, number)) { holder.append(el("span", { class: "tag" }, number)); continue; }
    const button = el("button", { type: "button", class: "tag", "aria-expanded": "false", title: book[number].states, onclick: () => {
      open = open === number ? null : number;
      for (const other of holder.children) if (other.tagName === "BUTTON") other.setAttribute("aria-expanded", String(other === button && open === number));
      said.hidden = open === null;
      if (open) said.replaceChildren(...rule(number));
    } }, number);
    holder.append(button);
  }
  return [holder, said];
}
function rule(number) {
  const r = book[number], from = r.from.map(([name, title, link]) => el("a", /^https?:/.test(link) ? { href: link, rel: "noreferrer", title } : {}, name));
  return [el("strong", {}, `${number}: ${r.title}`), el("p", {}, r.states), el("p", { class: "soft" }, "Why: ", r.why),
    r.beyond ? el("p", { class: "soft" }, "Beyond the proposal's letter: ", r.beyond) : null,
    from.length ? el("p", { class: "soft" }, "From ", from.flatMap((a, i) => (i ? [", ", a] : [a])), r.section ? ", " + r.section : "") : null].filter(Boolean);
}

function heading() {
  const r = run(), bad = Boolean(r.name);
  const titles = given.runs.map(other => other.title), names = given.runs.map((other, i) => titles.indexOf(other.title) === i && titles.lastIndexOf(other.title) === i ? other.title : `${other.title} (${other.subtitle})`);
  const chooser = given.runs.length < 2 ? null : given.runs.length > 6 ? el("p", {}, el("select", { "aria-label": "runs", onchange: event => { shown = Number(event.target.value); at = last(); show(); } }, names.map((name, i) => el("option", { value: i, selected: i === shown }, name)))) : el("div", { class: "chips", role: "group", "aria-label": "runs" }, given.runs.map((other, i) =>
    el("button", { type: "button", "aria-pressed": String(i === shown), onclick: () => { shown = i; at = last(); show(); } }, names[i])));
  const rows = given.about.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  head.replaceChildren(el("p", { class: "over" }, given.title), chooser || "", live ? live.tools() : "",
    !r.title ? "" : el("div", { class: "verdict " + (bad ? "bad" : "plain") }, el("h1", {}, r.title.split(/(?<=_)/).flatMap((part, i) => (i ? [el("wbr", {}), part] : [part]))), el("span", { class: "sub" }, r.subtitle), bad ? ruled(r.source) : null,
      r.meaning ? el("p", { class: "meaning" }, "It says: ", r.meaning) : null),
    falsity(r), outcomes(r),
    r.loop ? el("details", { class: "fold" }, el("summary", {}, r.loop.start < r.steps.length - 1 ? "Why the loop is fair" : "Why the run may end there"), el("ul", {}, r.loop.fair.map(line => el("li", {}, line)))) : "",
    el("details", { class: "fold" }, el("summary", {}, "Parameters and rules"), el("dl", { class: "pairs" }, rows)));
}

// --- why the property is false ----------------------------------------------------------------------------------------

const LEAVES = 8;
let derived = false;
function falsity(r) {
  const place = r.falseAt.includes(at) ? at : r.falseAt.at(-1), part = place === undefined ? null : r.why[String(place)];
  if (!part) return "";
  const rows = given => part.leaves.filter(leaf => leaf[3] === given).slice(0, LEAVES).map(([text, holds, values]) => el("tr", {},
    el("td", {}, el("code", { class: holds ? "holds" : "fails" }, text)), el("td", { class: "truth" }, holds ? "is true" : "is false"),
    el("td", {}, values.map(([name, value], i) => [i ? ", " : "", el("code", {}, name), " is ", el("code", { class: "plain" }, value)]))));
  const faults = rows(false), premises = rows(true);
  const whole = el("details", { class: "fold", open: derived }, el("summary", {}, "How this follows"), branch(part.whole));
  whole.addEventListener("toggle", () => { derived = whole.open; });
  return el("section", { class: "why false", "aria-label": "the part that is false" },
    el("h2", {}, r.loop ? `What does not happen, in state ${r.steps[place].number}` : "The part that is false"),
    el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, faults), premises.length ? el("tbody", {}, el("tr", {}, el("td", { class: "soft", colspan: 3 }, "where it should be true, as")), premises) : null)), whole);
}
function branch(part) {
  const values = part.values.map(([text, value]) => el("li", { class: "value" }, el("code", {}, text), " is ", el("code", { class: "plain" }, value)));
  const text = part.text ? el("code", { class: part.holds ? "holds" : "fails" }, part.text) : null;
  return el("div", { class: "part" }, el("p", {}, part.says ? part.says + " " : "", text),
    values.length ? el("ul", { class: "values" }, values) : null, part.parts.map(branch));
}

// What two sets of rules make of the same state, where it is not the same.
function outcomes(r) {
  if (!r.sides) return "";
  const [a, b] = [ids(last() - 1), ids(last())], before = ids(r.steps[last()].base), sides = ["before", ...r.sides];
  const rows = cellsOf(r).filter(({ cell }) => a[cell] !== b[cell]).map(({ cell, label, column }) => el("tr", {}, el("th", { scope: "row" }, column ? el("span", { class: "soft" }, column + " ") : null, el("code", {}, label)),
    [before, a, b].map((texts, n) => el("td", { "data-side": sides[n] }, r.texts[texts[cell]]))));
  const notes = [last() - 1, last()].map(i => r.steps[i].note && el("p", { class: "note" }, `${r.sides[i - last() + 1]}: ${r.steps[i].note}`)).filter(Boolean);
  return el("section", { class: "why", "aria-label": "both outcomes" }, el("h2", {}, r.steps[last() - 1].sentence.replace(`${r.sides[0]}: `, "")), notes,
    el("div", { class: "scroll" }, el("table", { class: "outcomes" }, el("thead", {}, el("tr", {}, ["", ...sides].map(h => el("th", {}, h)))), el("tbody", {}, rows))));
}

// --- a step ----------------------------------------------------------------------------------------------------------

const bar = el("div", { class: "bar" }), chartHolder = el("div", { class: "scroller" }), panel = el("div", { class: "panel" });
const buttons = [["«", "first state (Home)", () => pick(0)], ["‹", "one step back (←)", () => pick(at - 1)], ["›", "one step on (→)", () => pick(at + 1)], ["»", "last state (End)", () => pick(last())]]
  .map(([sign, title, action]) => el("button", { type: "button", title, "aria-label": title, onclick: action }, sign));
const where = el("span", { class: "where", "aria-live": "polite" });
bar.append(...buttons, where);
const last = () => run().steps.length - 1;

function pick(i) {
  const next = Math.max(0, Math.min(last(), i));
  if (next !== at) { at = next; step(); }
}
function step() {
  const r = run(), s = r.steps[at];
  buttons[0].disabled = buttons[1].disabled = at === 0;
  buttons[2].disabled = buttons[3].disabled = at === last();
  where.replaceChildren(el("strong", {}, `${s.number} of ${r.steps.at(-1).number}`), " ", s.sentence);
  drawChart();
  const why = head.querySelector(".why.false");
  if (why) why.replaceWith(falsity(r));
  const told = [changes(r, s), logsOf(r, s), messages(r)], next = possible(r);    // who explores wants to go on
  panel.replaceChildren(...[about(r, s), ...(live ? [...live.about(at), next, ...told] : [...told, next]), state(r, s)].filter(Boolean));
  try { history.replaceState(null, "", live ? live.address(at) : `#${shown + 1}.${s.number}`); } catch { /* where a page has no address of its own */ }
}
function about(r, s) {
  return el("section", {}, el("h2", {}, `${s.number}. ${s.sentence}`), s.note ? el("p", { class: "note" }, s.note) : null,
    s.action ? el("p", {}, el("code", { class: "soft" }, s.action), " ", ruled(s.source)) : null,
    s.meaning ? el("p", { class: "soft" }, s.meaning) : null);
}
const ids = i => run().states[i];
const cellsOf = r => r.tables.flatMap(table => table.rows.flatMap(([label, tells, , cells]) =>
  cells.map((cell, column) => ({ cell, label, tells, column: table.columns[column] || "" })).filter(({ cell }) => cell !== null)));
function rowsThatChanged(r, s) {
  if (s.base === null) return [];
  const now = ids(at), before = ids(s.base);
  const found = cellsOf(r).filter(({ cell }) => now[cell] !== before[cell]).map(place => ({ ...place, before: r.texts[before[place.cell]], now: r.texts[now[place.cell]] }));
  return found.sort((a, b) => b.tells - a.tells);
}
function changes(r, s) {
  if (s.base === null) return null;
  const found = rowsThatChanged(r, s);
  return el("section", { class: "changes" }, el("h3", {}, "What changed"), found.length ? el("table", {}, el("tbody", {}, found.map(c =>
    el("tr", {}, el("th", { scope: "row" }, c.column ? el("span", { class: "soft" }, c.column + " ") : null, el("code", {}, c.label)),
      el("td", {}, el("del", {}, c.before), " → ", el("ins", {}, c.now)))))) : el("p", { class: "soft" }, "Nothing."));
}
function logsOf(r, s) {
  const drawn = logs(r, at, s.base, Math.min(560, Math.max(260, panel.clientWidth || 340)));
  return drawn && el("section", {}, el("h3", {}, "Logs"), drawn);
}
function messages(r) {
  const here = r.chart.arrows.filter(a => a.title && a.start <= at && (a.end === null || at < a.end)), lanes = r.chart.lanes;
  if (!here.length) return null;
  return el("section", {}, el("h3", {}, "Under way"), el("ul", {}, here.map(a => el("li", {}, `${a.title} from ${lanes[a.from][0]} to ${lanes[a.to][0]}`,
    a.shown.length ? [": ", el("code", {}, a.shown.join(", "))] : null))));
}

// --- what could be done ------------------------------------------------------------------------------------------------

function fates(r) {
  const found = [];
  for (let i = 0; i <= at; i++) { const pairs = r.choices.states[i]; for (let k = 0; k < pairs.length; k += 2) found[pairs[k]] = pairs[k + 1]; }
  return found;
}
function possible(r) {
  if (!r.choices.known[at]) return null;
  const all = fates(r), next = r.steps[at + 1], takes = next && next.base === at ? next.instance : null;
  const open = [], refused = new Map();
  all.forEach((fate, i) => {
    const [action, parameters, sentence] = r.choices.instances[i];
    if (fate <= 0) open.push({ i, sentence, taken: i === takes, cut: fate < 0 ? r.choices.bounds[-fate - 1] : null });
    else {
      if (!refused.has(action)) refused.set(action, new Map());
      const guards = refused.get(action), name = r.choices.guards[fate - 1];
      if (!guards.has(name)) guards.set(name, []);
      guards.get(name).push(parameters);
    }
  });
  open.sort((a, b) => b.taken - a.taken || (a.cut !== null) - (b.cut !== null));
  const list = open.length ? el("ul", { class: "possible" }, open.map(o => el("li", { class: o.taken ? "taken" : o.cut !== null ? "soft" : null }, live && o.cut === null ? el("button", { type: "button", class: "step", onclick: () => live.take(o.i) }, o.sentence) : o.sentence,
    o.taken ? el("span", { class: "tag" }, "this run does") : null, o.cut !== null ? el("span", { class: "tag" }, `pruned at ${o.cut}`) : null))) : el("p", { class: "soft" }, "Nothing.");
  const rows = [...refused].flatMap(([action, guards]) => [...guards].map(([guard, parameters], k) => el("tr", {},
    k ? null : el("th", { scope: "rowgroup", rowspan: guards.size }, el("code", {}, action)), el("td", {}, "“", guard, "”"), el("td", { class: "soft" }, parameters.filter(Boolean).join("; ")))));
  const count = all.filter(f => f > 0).length;
  const table = el("details", { class: "fold refused", open: everything }, el("summary", {}, `Refused: ${many(count, "step")}, and by which guard`),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["action", "the guard that refuses it", "with"].map(h => el("th", {}, h)))), el("tbody", {}, rows))));
  table.addEventListener("toggle", () => { everything = table.open; });
  return el("section", {}, el("h3", {}, `Enabled: ${many(open.length, "step")}`), list, table);
}

// --- the whole state ----------------------------------------------------------------------------------------------------

let still = false, unfolded = null;
function state(r, s) {
  const now = ids(at), before = s.base === null ? now : ids(s.base);
  const hidden = r.tables.reduce((n, table) => n + table.rows.filter(row => row[2]).length, 0);
  const tables = r.tables.map(table => {
    const rows = table.rows.filter(row => still || !row[2]).map(([label, , , cells]) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, label)),
      cells.map(cell => cell === null ? el("td", {}) : el("td", { class: now[cell] !== before[cell] ? "changed" : null }, r.texts[now[cell]]))));
    if (!rows.length) return null;
    const heads = table.columns.length ? el("thead", {}, el("tr", {}, el("th", {}), table.columns.map(c => el("th", { scope: "col" }, c)))) : null;
    return el("div", { class: "scroll" }, el("table", { class: "state" }, heads, el("tbody", {}, rows)));
  });
  const button = hidden ? el("button", { type: "button", "aria-pressed": String(still), onclick: () => { still = !still; step(); } },
    still ? "Leave out what never changes in this run" : `Show ${many(hidden, "field")} that never ${hidden === 1 ? "changes" : "change"} in this run`) : null;
  const all = el("details", { class: "fold whole", open: unfolded ?? innerWidth > 860 }, el("summary", {}, "The state"), tables, button);
  all.addEventListener("toggle", () => { unfolded = all.open; });
  return all;
}

// --- the chart and its exports --------------------------------------------------------------------------------------------

function drawChart() {
  const width = Math.max(300, Math.min(900, chartHolder.clientWidth || 340)), focused = chartHolder.contains(document.activeElement);
  const chart = new Chart(run(), width, pick), svg = chart.svg(at), s = run().steps[at], top = chartHolder.scrollTop;
  put(svg, { tabindex: 0, role: "slider", "aria-label": "step of the run", "aria-valuemin": 1, "aria-valuemax": run().steps.length, "aria-valuenow": at + 1, "aria-valuetext": `${s.number}: ${s.sentence}` }, []);
  chartHolder.replaceChildren(chart.heads(), svg);
  chartHolder.scrollTop = top;
  if (focused) svg.focus({ preventScroll: true });
  const row = svg.querySelector(".row.selected .ground"), y = Number(row.getAttribute("y")), h = Number(row.getAttribute("height"));
  if (y - h < chartHolder.scrollTop) chartHolder.scrollTop = y - 2 * h;
  else if (y + 2 * h > chartHolder.scrollTop + chartHolder.clientHeight) chartHolder.scrollTop = y + 2 * h - chartHolder.clientHeight;
}
function legend(r) {
  const sample = (...inside) => shape("svg", { class: "timeline chart", width: 26, height: 16, viewBox: "0 0 26 16", "aria-hidden": "true" }, inside);
  const block = (name, h) => sample(shape("rect", { x: 2, y: 8 - h / 2, width: 22, height: h, class: name }));
  const line = name => sample(shape("line", { x1: 1, x2: 25, y1: 8, y2: 8, class: name }));
  const arrow = (fate, mark) => sample(shape("g", { class: "arrow " + fate }, shape("path", { class: "shaft", d: "M1 8H18" }), shape("path", { class: "mark", d: mark })));
  const [band, beside] = r.chart.bands, used = new Set(band ? band.signs.flat() : []), fatesUsed = new Set(r.chart.arrows.map(a => a.fate));
  const items = [[used.has("leader"), block("leader", 15), "leader"], [used.has("isr"), block("isr", 11), "in the ISR"], [used.has("elr"), block("elr", 11), "in the ELR"],
    [used.has("fenced"), block("fenced", 7), "fenced"], [used.has(""), line("out"), "out"], [used.has("known"), line("known"), "last known ELR"], [used.has("down"), line("down"), "down"],
    [beside && beside.signs.flat().some(Boolean), block("belief", 5), beside && beside.title],
    [fatesUsed.has("taken"), arrow("taken", arrowhead(25, 8, 0)), "message"], [fatesUsed.has("lost"), arrow("lost", cross(20, 8, 4)), "lost"], [fatesUsed.has("under way"), arrow("under-way", circle(21, 8, 3)), "still under way"]];
  return el("ul", { class: "legend" }, items.filter(([on]) => on).map(([, sign, words]) => el("li", {}, sign, words)), band ? el("li", { class: "soft" }, `bars: ${band.title}`) : null);
}

// The chart with its looks written into each element: no style sheet, no pattern, a ground of its own, any scale.
function standalone(scale) {
  const width = 960, holder = el("div", { class: "export" });
  document.body.append(holder);
  const r = run(), drawing = new Chart(r, width, () => {}), heads = drawing.heads(), chart = drawing.svg(-1), drawn = logs(r, last(), null, 560);
  holder.append(heads, chart, ...(drawn ? [drawn] : []));
  const looks = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-size", "font-weight", "font-family", "paint-order", "stroke-linejoin"];
  // First all of them are looked at: an element's looks depend on the classes of those around it.
  const nodes = [...holder.querySelectorAll("svg *")].filter(node => node.tagName !== "title");
  const found = nodes.map(node => { const style = getComputedStyle(node); return looks.map(look => [look, plainLook(look, style.getPropertyValue(look), style)]); });
  nodes.forEach((node, i) => { for (const [look, value] of found[i]) if (value) node.setAttribute(look, value); node.removeAttribute("class"); });
  const top = 66, title = top + HEAD, height = title + chart.height.baseVal.value + (drawn ? drawn.height.baseVal.value + 10 : 0), ground = getComputedStyle(document.body).backgroundColor, ink = getComputedStyle(document.body).color;
  const text = (y, size, weight, words) => shape("text", { x: 12, y, "font-size": size, "font-weight": weight, "font-family": "sans-serif", fill: ink }, fold(words, width - 24, size, 1)[0]);
  const whole = shape("svg", { width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}` }, shape("title", {}, r.title),
    shape("rect", { x: 0, y: 0, width, height, fill: ground }), text(20, 15, 600, `${r.title}, ${r.subtitle}`), text(38, 12, 400, r.meaning), text(56, 12, 400, given.title),
    shape("g", { transform: `translate(0 ${top})` }, [...heads.childNodes]), shape("g", { transform: `translate(0 ${title})` }, [...chart.childNodes]), drawn ? shape("g", { transform: `translate(12 ${title + chart.height.baseVal.value + 6})` }, [...drawn.childNodes]) : null);
  holder.remove();
  return new XMLSerializer().serializeToString(whole);
}
function plainLook(look, value, style) {
  if (!value.includes("url(")) return look === "font-family" ? "sans-serif" : value;
  return style.getPropertyValue("--plain").trim() || "none";
}
function save(name, type, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: `${name}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function exports() {
  const r = run(), name = (r.name || "run").replace(/[^\w-]+/g, "-");
  const button = (label, title, action) => el("button", { type: "button", title, onclick: action }, label);
  return el("div", { class: "exports", role: "group", "aria-label": "save" }, el("span", { class: "soft" }, "Save: "),
    button("SVG", "the chart as a picture", () => save(`${name}.svg`, "image/svg+xml", standalone(1))),
    button("SVG ×2", "the same at twice the size, for turning into a PNG", () => save(`${name}-2x.svg`, "image/svg+xml", standalone(2))),
    button("Markdown", "the run as a table, for a proposal", () => save(`${name}.md`, "text/markdown", r.markdown)));
}

// --- start ------------------------------------------------------------------------------------------------------------

function show() {
  const r = run();
  document.title = `${clean(r.title)}: ${clean(given.title)}`;
  heading();
  main.replaceChildren(bar, el("div", { class: "columns" }, el("section", { class: "left", "aria-label": "the chart" }, legend(r), chartHolder, exports()), panel),
    r.leftOut ? el("p", { class: "note" }, `${many(r.leftOut, "state")} before these are left out.`) : "");
  step();
}
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const chart = chartHolder.contains(event.target), page = chart ? { PageDown: at + 5, PageUp: at - 5 } : {};
  const keys = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last(), ...(chart ? { ArrowDown: at + 1, ArrowUp: at - 1 } : {}), ...page };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  pick(keys[event.key]);
});
function fromAddress() {
  const asked = /^#(\d+)\.(\d+)$/.exec(location.hash);
  shown = asked ? Math.max(0, Math.min(given.runs.length - 1, Number(asked[1]) - 1)) : 0;
  const place = asked ? run().steps.findIndex(s => s.number === Number(asked[2])) : -1;
  at = place >= 0 ? place : last();
}
// Where a server answers, a run goes on from where it is (explore.js).
const live = globalThis.explorer ? globalThis.explorer() : null;
if (live) {
  live.start();
  new ResizeObserver(() => requestAnimationFrame(() => { if (given.runs.length) drawChart(); })).observe(chartHolder);
} else if (given.runs.length) {
  fromAddress();
  show();
  window.addEventListener("hashchange", () => { fromAddress(); show(); });
  new ResizeObserver(() => requestAnimationFrame(drawChart)).observe(chartHolder);
} else {
  head.replaceChildren(el("p", { class: "over" }, given.title), el("div", { class: "verdict plain" }, el("h1", {}, "No run to show")));
}
