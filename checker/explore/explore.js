// --- exploring by hand -----------------------------------------------------------------------------------------------
// run.js draws a run and asks `explorer` for what only a server can say: another run, a way to a state, another rule.

globalThis.explorer = () => {
  const FAR = 10;
  let path = [0], watch = [], answer = null, switched = null, latest = 0;
  const here = at => path.slice(0, at + 1 + (run().leftOut || 0));
  const address = at => "#" + path.join(".") + (at < last() ? "@" + at : "");

  async function ask(name, asked) {
    const response = await fetch(name + "?" + new URLSearchParams(asked), { cache: "no-store" });
    const said = await response.json();
    if (!response.ok) throw new Error(said.error || response.statusText);
    return said;
  }
  // What is under way is told; of two answers the later question's counts.
  async function doing(what, work) {
    const mine = ++latest;
    say(what + " …");
    try {
      const said = await work();
      if (mine === latest) { say(""); return said; }
    } catch (wrong) {
      if (mine === latest) say(wrong.message, true);
    }
    return null;
  }
  const status = el("p", { class: "status", role: "status" });
  function say(text, bad) {
    status.textContent = text;
    status.className = "status" + (bad ? " bad-text" : " soft");
  }

  async function go(next, at, moved) {
    const said = await doing("asking", () => ask("run", { path: next.join("."), watch: watch.join("\n") }));
    if (!said) return false;
    path = next;
    answer = said;
    switched = null;
    for (const [number, told] of Object.entries(said.rules)) book[number] = told;
    given.runs[0] = said.run;
    place(at);
    if (moved) history.pushState(null, "", address(current()));    // drawing keeps the entry's address up to date
    show();
    return true;
  }
  const move = next => go(next, undefined, true);
  const take = i => move([...here(current()), i]);

  function start() {
    const asked = /^#(\d+(?:\.\d+)*)(?:@(\d+))?$/.exec(location.hash);
    const wanted = asked ? asked[1].split(".").map(Number) : [0];
    go(wanted, asked && asked[2] !== undefined ? Number(asked[2]) : undefined).then(async good => {
      if (good || !asked) return;
      const why = status.textContent;
      await go([0]);
      say(why, true);
    });
  }
  window.addEventListener("popstate", start);

  // --- tools -----------------------------------------------------------------------------------------------------------

  const field = (label, placeholder, submit) => {
    const input = el("input", { type: "text", "aria-label": label, placeholder, spellcheck: "false", autocomplete: "off", maxlength: 2000 });
    return [el("form", { class: "ask", onsubmit: event => { event.preventDefault(); if (input.value.trim()) submit(input.value.trim(), input); } },
      input, el("button", { type: "submit" }, label)), input];
  };
  const [seeking, where] = field("Nearest state where", given.examples[0], async text => {
    const found = await doing("searching", () => ask("nearest", { path: here(current()).join("."), where: text }));
    if (!found) return;
    if (found.path) {
      await move(found.path.split(".").map(Number));
      say(`Found after ${many(found.states, "state")} in ${found.seconds} s.`);
    } else say(found.complete ? `There is none: ${many(found.states, "state")} from here on, and it holds in none of them.` : `Not found among ${many(found.states, "state")}; the search was ended.`, true);
  });
  const [watching] = field("Watch", given.examples[1], (text, input) => {
    if (!watch.includes(text)) watch.push(text);
    input.value = "";
    go(path, current());
  });
  const random = n => el("button", { type: "button", title: `${n} random steps on from here`, onclick: async () => {
    const found = await doing("walking", () => ask("random", { path: here(current()).join("."), steps: n, seed: Math.floor(Math.random() * 1e9) }));
    if (found) move(found.path.split(".").map(Number));
  } }, n === 1 ? "A random step" : `${n} random steps`);
  const rules = el("select", { "aria-label": "Switch a rule", onchange: async event => {
    const name = event.target.value;
    if (!name) { switched = null; step(); return; }
    const found = await doing("asking", () => ask("rule", { path: here(current()).join("."), name }));
    if (found) { switched = { ...found, at: current() }; step(); }
  } }, el("option", { value: "" }, "With another rule …"), (given.switches || []).map(([name, on]) => el("option", { value: name }, `${name} ${on ? "off" : "on"}`)));
  const box = el("section", { class: "tools", "aria-label": "explore" }, seeking, watching,
    el("div", { class: "ask" }, random(1), random(FAR), rules,
      el("button", { type: "button", onclick: () => move([0]) }, "From the start")), status);

  // --- what is said of a state -------------------------------------------------------------------------------------------

  function watched(at) {
    if (!answer || !answer.watched.length) return null;
    return el("section", { class: "watched" }, el("h3", {}, "Watched"), el("table", {}, el("tbody", {}, answer.watched.map(([text, good, values]) => {
      const now = good ? values[values.length - 1 - (last() - at)] : values[0], before = good && at > 0 ? values[values.length - 2 - (last() - at)] : now;
      return el("tr", {}, el("th", { scope: "row" }, el("code", {}, text)), el("td", { class: good ? (now !== before ? "changed" : null) : "bad-text" }, now ?? ""),
        el("td", {}, el("button", { type: "button", "aria-label": `do not watch ${text}`, onclick: () => { watch = watch.filter(w => w !== text); go(path, at); } }, "×")));
    }))));
  }
  function differs(at) {
    if (!switched || switched.at !== at) return null;
    const list = (title, entries) => entries.length ? [el("h3", {}, title), el("ul", {}, entries.map(e => el("li", {}, e)))] : null;
    const none = switched.comparable && !switched.more.length && !switched.less.length && !switched.otherwise.length;
    return el("section", { class: "why" }, el("h2", {}, "Were the rule ", el("code", {}, switched.name), " the other way round"),
      switched.comparable ? null : el("p", {}, "states would have another form: they cannot be compared."), none ? el("p", {}, "nothing would be different in this state.") : null,
      list("could be done besides", switched.more), list("could not be done", switched.less), list("would have another effect", switched.otherwise));
  }
  function violated(at) {
    if (!answer || at !== last() || !answer.violated.length) return null;
    return el("p", { class: "note bad-text" }, "Violated here: ", answer.violated.map((name, i) => [i ? ", " : "", el("code", {}, name)]));
  }
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const n = "123456789".indexOf(event.key);
    if (event.key === "/") { event.preventDefault(); where.focus(); }
    else if (n >= 0) document.querySelectorAll(".possible button.step")[n]?.click();
  });
  return { take, start, address, tools: () => box, about: at => [violated(at), watched(at), differs(at)] };
};
