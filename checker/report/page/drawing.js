"use strict";
// Whatever comes from the data is set as text (textContent, text nodes), never as HTML.

// --- elements -----------------------------------------------------------------------------------------------------

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(String(child))));
  }
  return node;
}
const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) => put(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Control and direction characters become visible.
const clean = text => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, c => "\\u{" + c.codePointAt(0).toString(16).padStart(4, "0") + "}");

const ruler = document.createElement("canvas").getContext("2d");
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";
function measure(text, size, weight) {
  ruler.font = `${weight || 400} ${size}px ${FONT}`;
  return ruler.measureText(text).width;
}
// A text as lines of at most this width; what is left over after the last one is cut off with an ellipsis.
function fold(text, width, size, most, weight) {
  const lines = [""];
  for (const word of clean(text).split(" ")) {
    const longer = lines.at(-1) ? lines.at(-1) + " " + word : word;
    if (measure(longer, size, weight) <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const kept = lines.slice(0, most), last = kept.length - 1;
  let cut = lines.length > most || measure(kept[last], size, weight) > width;
  while (cut && kept[last] && measure(kept[last] + "…", size, weight) > width) kept[last] = kept[last].slice(0, -1);
  if (cut) kept[last] += "…";
  return kept;
}

// --- the chart ----------------------------------------------------------------------------------------------------

const HEAD = 24, DOT = 5, SIZE = 13, SMALL = 11;
const WIDTHS = { leader: 16, isr: 11, elr: 11, fenced: 7 };

class Chart {
  // One row for each state: the step to it. `pick` is told which row is chosen.
  constructor(run, width, pick) {
    Object.assign(this, { run, width, pick, data: run.chart });
    this.narrow = width < 620;
    this.left = this.narrow ? 30 : Math.round(Math.max(width * 0.45, Math.min(width * 0.7, width - run.chart.lanes.length * 92, 420)));
    this.lane = (width - this.left - 6) / this.data.lanes.length;
    this.lines = run.steps.map((s, i) => fold(s.sentence, this.narrow ? width - 44 : this.left - 52, SIZE, this.narrow ? 1 : 2, this.kind(i) ? 600 : 400));
    this.row = this.narrow ? 50 : 40;
    this.height = this.row * run.steps.length + 20;
  }
  x(lane) { return this.left + this.lane * (lane + 0.5); }
  top(i) { return this.row * i + 4; }
  y(i) { return this.top(i) + (this.narrow ? 33 : this.row / 2); }

  svg(selected) {
    const { run, width, height } = this;
    const parts = [this.rows(selected), this.loop(), this.lifelines(), this.arrows(selected), this.dots(selected), this.words()];
    return shape("svg", { class: "timeline chart", width, height, viewBox: `0 0 ${width} ${height}` }, parts);
  }
  text(x, y, text, name, anchor, size) {
    return shape("text", { x, y, class: name, "text-anchor": anchor || "start", "font-size": size || SIZE }, text);
  }
  // The lanes' titles, a picture of its own that stays where it is while the chart is scrolled.
  heads() {
    const titles = this.data.lanes.map(([title, outside], i) =>
      this.text(this.x(i), 17, fold(title, this.lane - 4, 12, 1)[0], outside ? "label" : "lane", "middle", 12));
    return shape("svg", { class: "timeline chart heads", width: this.width, height: HEAD, viewBox: `0 0 ${this.width} ${HEAD}`, "aria-hidden": "true" }, titles);
  }
  rows(selected) {
    return this.run.steps.map((step, i) => {
      return shape("g", { class: "row" + this.kind(i, selected), onclick: () => this.pick(i) },
        shape("title", {}, `${step.number}. ${step.sentence}`),
        shape("rect", { class: "ground", x: 0, y: this.top(i), width: this.width, height: this.row, rx: 5 }));
    });
  }
  words() {
    return this.run.steps.map((step, i) => {
      const lines = this.lines[i], y = this.narrow ? this.top(i) + 15 : this.y(i) + 4 - (lines.length - 1) * 8;
      return shape("g", { class: "words" + this.kind(i) }, this.text(24, y, step.number, "label", "end", 12),
        lines.map((line, k) => this.text(32, y + 16 * k, line, "sentence")));
    });
  }
  kind(i, selected) {
    const wrong = this.run.falseAt.includes(i) && (!this.run.loop || i === this.run.steps.length - 1);
    return (i === selected ? " selected" : "") + (wrong ? " wrong" : "");
  }
  loop() {
    const loop = this.run.loop;
    if (!loop) return null;
    const last = this.run.steps.length - 1, stays = loop.start === last;
    const y = this.top(stays ? last : loop.start + 1) + 2, end = this.top(last) + this.row - 2, x = 4;
    return shape("path", { class: "loop", d: `M${x + 4} ${y}H${x}V${end}H${x + 4}` }, shape("title", {}, stays ? "and there it stays" : "and so on forever"));
  }
  lifelines() {
    const [band, beside] = this.data.bands, steps = this.run.steps.length, parts = [];
    const ends = i => [i ? this.y(i) : this.top(0) + 4, i + 1 < steps ? this.y(i + 1) : this.height - 8];
    const spans = (signs, draw) => {
      for (let i = 0, j; i < steps; i = j) {
        for (j = i + 1; j < steps && signs(j) === signs(i); j++);
        draw(signs(i), ends(i)[0], ends(j - 1)[1]);
      }
    };
    this.data.lanes.forEach((_, lane) => {
      const x = this.x(lane), own = b => b && lane >= b.first && lane - b.first < b.signs[0].length;
      if (!own(band)) {
        parts.push(shape("line", { class: "lifeline", x1: x, x2: x, y1: this.top(0), y2: this.height - 8 }));
      } else {
        spans(i => band.signs[i][lane - band.first], (sign, from, to) => parts.push(this.bar(sign, x, from, to)));
      }
      if (own(beside)) {
        spans(i => beside.signs[i][lane - beside.first], (sign, from, to) =>
          sign && parts.push(shape("rect", { class: "belief", x: x + 10.5, y: from + 1, width: 4, height: Math.max(1, to - from - 2) })));
      }
    });
    return parts;
  }
  bar(sign, x, from, to) {
    if (WIDTHS[sign]) return shape("rect", { class: sign, x: x - WIDTHS[sign] / 2, y: from, width: WIDTHS[sign], height: to - from });
    if (sign === "down") {
      return shape("g", {}, shape("line", { class: "down", x1: x, x2: x, y1: from + 6, y2: to }), shape("path", { class: "down-mark", d: cross(x, from + 6, 5) }));
    }
    return shape("line", { class: sign || "out", x1: x, x2: x, y1: from, y2: to });
  }
  arrows(selected) {
    const boxes = this.run.steps.map((_, i) => ({ x: 0, y: this.narrow ? this.top(i) : -99, w: this.narrow ? this.width : 0, h: this.narrow ? 20 : 0 }));
    this.data.places.forEach((lane, i) => lane !== null && i && boxes.push({ x: this.x(lane) - 7, y: this.y(i) - 7, w: 14, h: 14 }));
    return this.data.arrows.map(a => this.arrow(a, selected, boxes));
  }
  arrow(a, selected, boxes) {
    const here = a.start <= selected && (a.end === null || selected <= a.end);
    const end = a.end === null ? this.run.steps.length - 1 : a.end;
    const down = a.end === null ? this.height - 10 - this.y(end) : 0;
    let [x1, y1, x2, y2] = [this.x(a.from), a.from === a.to && a.start === 0 ? this.top(0) + 6 : this.y(a.start), this.x(a.to), this.y(end) + down];
    const same = a.from === a.to, side = Math.sign(x2 - x1) || 1;
    if (!same) { x1 += side * 9; x2 -= side * 10; }
    if (a.fate === "lost") { x2 = x1 + (x2 - x1) * 0.7; y2 = y1 + (y2 - y1) * 0.85; }
    const bend = same ? Math.min(this.lane * 0.4, 30) : 0;
    const path = same ? `M${x1 + 9} ${y1}C${x1 + 9 + bend} ${y1} ${x1 + 9 + bend} ${y2} ${x2 + 10} ${y2}` : `M${x1} ${y1}L${x2} ${y2}`;
    const tip = same ? [x2 + 10, y2, Math.PI] : [x2, y2, Math.atan2(y2 - y1, x2 - x1)];
    const mark = { taken: arrowhead(...tip), within: arrowhead(...tip), lost: cross(tip[0], tip[1], 4), "under way": circle(tip[0], tip[1], 3) }[a.fate];
    const fate = a.fate.replace(" ", "-"), says = a.title + (a.shown.length ? ": " + a.shown.join(", ") : "");
    return shape("g", { class: `arrow ${fate}${here ? " here" : ""}` }, shape("title", {}, says && `${says} (${a.fate})`),
      shape("path", { class: "shaft", d: path }), shape("path", { class: "mark", d: mark }),
      a.title ? this.label(a.title, x1, y1, x2, y2, same ? bend + 12 : 0, boxes) : null);
  }
  // A label stands where it covers no other one; where there is no such place there is none: the tooltip has it.
  label(text, x1, y1, x2, y2, aside, boxes) {
    const w = measure(text, SMALL) + 4, h = 13;
    for (const t of [0.5, 0.35, 0.65, 0.2, 0.8]) {
      const x = Math.min(this.width - w / 2, x1 + (x2 - x1) * t + aside), y = y1 + (y2 - y1) * t;
      const box = { x: x - w / 2, y: y - h / 2 - 3, w, h };
      const free = !boxes.some(b => b.x < box.x + box.w && box.x < b.x + b.w && b.y < box.y + box.h && box.y < b.y + b.h);
      const onLane = this.data.lanes.some((_, i) => Math.abs(this.x(i) - x) < w / 2 + 6);
      if (free && box.x > this.left - 4 && (!onLane || this.lane < w + 30)) {
        boxes.push(box);
        return this.text(x, y + 1, text, "said", "middle", SMALL);
      }
    }
    return null;
  }
  dots(selected) {
    return this.run.steps.map((step, i) => {
      const lane = this.data.places[i], name = "dot" + (i === selected ? " selected" : "");
      if (step.instance === null) return null;
      if (lane !== null) return shape("circle", { class: name, cx: this.x(lane), cy: this.y(i), r: i === selected ? DOT + 2 : DOT });
      const x = this.x(0) - 8;
      return shape("rect", { class: name + " wide", x, y: this.y(i) - 3, width: this.x(this.data.lanes.length - 1) + 8 - x, height: 6, rx: 3 });
    });
  }
}
function arrowhead(x, y, angle) {
  const at = (dx, dy) => `${(x + dx * Math.cos(angle) - dy * Math.sin(angle)).toFixed(1)} ${(y + dx * Math.sin(angle) + dy * Math.cos(angle)).toFixed(1)}`;
  return `M${at(0, 0)}L${at(-8, -4)}L${at(-8, 4)}Z`;
}
const cross = (x, y, r) => `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`;
const circle = (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

// --- logs as cells --------------------------------------------------------------------------------------------------

// The logs of a state; what differs from the state `base` is marked.
function logs(run, i, base, width) {
  const found = run.chart.logs;
  if (!found.length) return null;
  const label = Math.min(110, Math.max(...found.map(l => measure(l.title, SIZE))) + 12), gap = 64;
  const most = Math.max(1, ...found.map(l => l.size));
  const cell = Math.max(22, Math.min(64, (width - label - 46) / most)), parts = [];
  found.forEach((log, row) => {
    const [records, marks] = log.states[i], [olds, former] = base === null ? [records, marks] : log.states[base];
    const y = 20 + row * gap;
    parts.push(shape("text", { x: 0, y: y + 17, class: "lane", "font-size": SIZE }, fold(log.title, label - 4, SIZE, 1)[0]));
    for (let k = 0; k < log.size; k++) {
      const record = records[k], x = label + k * cell, changed = JSON.stringify(record) !== JSON.stringify(olds[k]);
      parts.push(shape("rect", { class: "cell" + (record ? " held" : "") + (changed ? " changed" : ""), x: x + 1, y, width: cell - 2, height: 25, rx: 3 }));
      if (record) {
        const said = log.shows.map((name, n) => `${name} ${record[n]}`).join(", ") || record.join(" ");
        parts.push(shape("text", { x: x + cell / 2, y: y + 17, "text-anchor": "middle", class: "record", "font-size": 12 },
          shape("title", {}, `offset ${k}: ${said}`), fold(record.join("·"), cell - 4, 12, 1)[0]));
      } else if (changed) {
        parts.push(shape("path", { class: "gone", d: cross(x + cell / 2, y + 12, 5) }, shape("title", {}, `offset ${k} was ${olds[k].join(", ")}`)));
      }
    }
    const ends = [...marks.map(([name, at], n) => [name, at, former[n] && former[n][1] !== at]), ["LEO", records.length, records.length !== olds.length]];
    ends.forEach(([name, at, changed], n) => {
      const x = label + Math.max(0, Math.min(log.size, at)) * cell, up = n % 2 === 0 && ends.length > 1;
      parts.push(shape("line", { class: "at" + (changed ? " changed" : "") + (name === "LEO" ? " leo" : ""), x1: x, x2: x, y1: y - (up ? 4 : 1), y2: y + (up ? 26 : 29) }));
      const middle = Math.max(14, x);
      parts.push(shape("text", { x: middle, y: up ? y - 7 : y + 38, "text-anchor": "middle", class: "mark-text" + (changed ? " changed" : ""), "font-size": 10 }, `${name} ${at < 0 ? "unknown" : at}`));
    });
  });
  const height = 8 + found.length * gap;
  return shape("svg", { class: "timeline logs", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "logs" }, parts);
}
