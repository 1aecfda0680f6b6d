// --- messages as arrows -------------------------------------------------------------------------------------------------

const ROWS = 28, MOST_ROWS = 448, JUMPS = 12;
const clock = time => { const at = moment(time); return at ? at.toISOString().slice(11, 23) : "no time"; };
const named = id => typeof id === "number" ? "broker " + id : clean(id);
const epochs = (leader, partition) => (leader === null ? "" : ", leader epoch " + clean(leader)) + (partition === null ? "" : ", partition epoch " + clean(partition));

function askedInWords(m) {
  const [offset, epoch, isr, partition] = m.asked;
  if (m.kind === "AlterPartition") return "AlterPartition: ISR " + members(isr) + epochs(epoch, partition);
  if (m.kind === "fetch") return offset === null ? "fetch, from where its session is" : "fetch from " + clean(offset) + epochs(epoch, null);
  return clean(m.kind);
}
function toldInWords(m) {
  const [error, hwm, size, diverging, offset, isr, partition] = m.told;
  const of = m.kind === "write" ? "write" : m.kind === "fetch" ? (m.asked[0] === null ? "fetch" : "fetch from " + clean(m.asked[0])) : clean(m.kind);
  if (error) return of + ": " + clean(error) + (offset === null ? "" : ", appended at " + clean(offset));
  if (m.kind === "AlterPartition") return "AlterPartition: done, ISR " + members(isr) + epochs(null, partition);
  if (m.kind === "fetch") return of + ": HWM " + clean(hwm) + (diverging ? `; logs part: epoch ${clean(diverging[0])} ends at ${clean(diverging[1])}` : size ? ", " + count(size) + " bytes" : ", nothing new");
  return of + (offset === null ? ": done" : ": appended at " + clean(offset) + ", acknowledged");
}

// The messages of a partition as rows of arrows between lanes, in the order of their times; null where there are none.
function exchanges(set, p, changes) {
  const marks = new Map(), rows = p.timeline[5] || [];
  if (!rows.length) return null;
  const mark = (at, kind, text) => {
    if (at.line === undefined) return;
    const key = clean(at.file) + "\n" + at.line;
    marks.set(key, [...(marks.get(key) || []), { kind, text }]);
  };
  for (const f of p.findings) mark(f.position, f.certain ? "finding" : "possible", (f.certain ? "▲ " : "△ possible: ") + f.rule + " " + f.property + ": " + f.summary);
  for (const u of p.unexplained) mark(u.position, "unexplained", "◆ does not conform: " + (u.candidates.length ? u.candidates[0].action : ""));
  const messages = rows.map(([arrived, took, sender, receiver, kind, asked, told, file, line, number]) => {
    const path = set.files[file];
    return { arrived, answered: arrived + took, sender, receiver, kind, asked, told, path, line, number, marks: marks.get(clean(path) + "\n" + line) || [] };
  });
  const kept = new Map();
  for (const m of messages) kept.set(m.receiver, (kept.get(m.receiver) || new Set()).add(m.number));
  const events = changes.filter(c => Number.isFinite(c.x)).map(c => ({ time: c.x, change: c }));
  for (const m of messages) {
    events.push({ time: m.arrived, m, gap: m.number > 1 && !kept.get(m.receiver).has(m.number - 1) });
    if (m.told) events.push({ time: m.answered, m, answer: true });
  }
  events.sort((a, b) => a.time - b.time);
  const brokers = [...new Set(messages.flatMap(m => [m.sender, m.receiver]))].filter(id => typeof id === "number").sort((a, b) => a - b).slice(0, LANES);
  const lanes = [...brokers, ...["controller", "client"].filter(id => messages.some(m => m.sender === id || m.receiver === id))];
  const told = events.map((e, i) => [e, i]).filter(([e]) => e.m && e.m.marks.length && (e.answer || !e.m.told));

  const list = el("ol", { class: "sent" }), where = el("span", { class: "soft" });
  let middle = told.length ? told[0][1] : 0, size = ROWS, shown = [], touched = told.length > 0;
  const move = to => { middle = Math.max(0, Math.min(events.length - 1, to)); draw(); };
  const button = (text, name, onclick) => el("button", { type: "button", "aria-label": name, onclick }, text);
  const earlier = button("‹ earlier", "Earlier messages", () => move(middle - Math.round(size / 2))), later = button("later ›", "Later messages", () => move(middle + Math.round(size / 2)));
  const more = button("more", "More messages at once", () => { size = Math.min(MOST_ROWS, 2 * size); draw(); }), fewer = button("fewer", "Fewer messages at once", () => { size = Math.max(7, Math.round(size / 2)); draw(); });
  const jumps = told.slice(0, JUMPS).map(([e, i]) => el("button", { type: "button", onclick: () => move(i) }, e.m.marks[0].text[0] + " " + clock(e.time)));
  const tools = el("div", { class: "toolbar" }, earlier, later, more, fewer, where, jumps.length ? [el("span", { class: "gap" }), "jump to:", jumps] : null);
  const box = el("details", { class: "fold exchanges" }, el("summary", {}, `${many(messages.length, "message")} between brokers, controller and clients, around the changes`), tools,
    el("p", { class: "soft" }, "A line is a request, a broken line its answer. Times are by the clock of who answered; a message is shown where it arrived."), list);

  const X = (id, width) => (lanes.indexOf(id) + 0.5) * width / lanes.length;
  const strip = width => shape("svg", { viewBox: `0 0 ${width} 26`, "aria-hidden": "true", focusable: "false" }, lanes.map(id => shape("line", { class: "lane", x1: X(id, width), x2: X(id, width), y1: -200, y2: 226 })));
  function arrow(svg, from, to, width) {
    const a = X(from, width), b = X(to, width), d = b > a ? 1 : -1;
    if (a < 0 || b < 0) return;
    svg.append(shape("line", { class: "arrow", x1: a, x2: b - 7 * d, y1: 13, y2: 13 }), shape("path", { class: "head", d: `M${b} 13l${-9 * d} -5v10Z` }));
  }
  function row(e, width) {
    const svg = strip(width);
    if (e.change) {
      svg.append(shape("circle", { class: "dot", cx: lanes.includes("controller") ? X("controller", width) : width - 6, cy: 13, r: 4 }));
      return el("li", { class: "change-row" }, el("span", { class: "at" }, clock(e.time)), svg, el("span", { class: "words" }, el("strong", {}, "metadata log: "), said(inWords(e.change))));
    }
    const m = e.m, [from, to] = e.answer ? [m.receiver, m.sender] : [m.sender, m.receiver], at = e.answer || !m.told ? m.marks : [];
    arrow(svg, from, to, width);
    const refused = e.answer && m.told[0] !== "", kind = at.length ? at[0].kind : "";
    const item = el("li", { class: [e.answer ? "answer" : "request", refused ? "refused" : "", kind, kind ? "told" : ""].join(" ").trim(), title: `${clean(shortNames.get(m.path) || m.path)}, line ${clean(m.line)}` },
      el("span", { class: "at" }, clock(e.time)), svg,
      el("span", { class: "words" }, `${named(from)} → ${named(to)}: `, said(e.answer ? toldInWords(m) : askedInWords(m)), at.map(k => el("div", { class: "bad-text" }, said(k.text)))));
    const light = on => { for (const [other, li] of shown) if (other.m === m) li.classList.toggle("same", on); };
    item.addEventListener("pointerenter", () => light(true));
    item.addEventListener("pointerleave", () => light(false));
    return item;
  }
  function draw() {
    if (!box.open) return;
    const first = Math.max(0, Math.min(middle - Math.floor(size / 2), events.length - size)), part = events.slice(first, first + size);
    const head = el("li", { class: "lanes" }, el("span", { class: "at" }), el("span", { class: "strip" }), el("span", { class: "words" }));
    list.replaceChildren(head);
    const width = Math.max(120, head.children[1].getBoundingClientRect().width), each = width / lanes.length;
    head.children[1].replaceWith(shape("svg", { viewBox: `0 0 ${width} 26` }, lanes.map(id => shape("text", { class: "lane-name", x: X(id, width), y: 17 }, typeof id === "number" ? (each > 62 ? "broker " + id : String(id)) : each > 62 ? id : id.slice(0, 4) + ".", shape("title", {}, named(id))))));
    shown = part.map(e => [e, row(e, width)]);
    for (const [e, item] of shown) {
      if (e.gap) list.append(el("li", { class: "left-out" }, el("span", { class: "at" }, "⋯"), strip(width), el("span", { class: "words" }, `messages that ${named(e.m.receiver)} answered before are left out`)));
      list.append(item);
    }
    earlier.disabled = first === 0;
    later.disabled = first + size >= events.length;
    more.disabled = size >= events.length || size >= MOST_ROWS;
    where.textContent = part.length ? `${utc(part[0].time).slice(0, 23)} to ${clock(part[part.length - 1].time)}` : "";
  }
  box.addEventListener("toggle", draw);
  let drawn = 0;
  new ResizeObserver(entries => { const wide = Math.round(entries[0].contentRect.width); if (wide && wide !== drawn) { drawn = wide; requestAnimationFrame(draw); } }).observe(box);
  return {
    element: box,
    // Goes with the change that is selected in the timeline, but first to what is told of.
    go(time) {
      if (touched) { touched = false; return; }
      const i = events.findIndex(e => e.time >= time);
      move(i < 0 ? events.length - 1 : i);
    },
  };
}
