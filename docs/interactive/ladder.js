/**
 * Threads, warps and blocks: the lessons' kernels on short rows, step by step, as the CPU device
 * recorded them in ladder_steps.js.
 *
 * figures.ladder reads the record, without a page; below it is what draws it.
 */
"use strict";

figures.ladder = (function () {
  const {show, plural} = figures;
  const {rows, eps, x, runs} = figures.ladderSteps;
  const kWarp = 32;
  const kSums = ["partial", "total"];  // in shared memory; all else there is columns of x

  /** Who takes part in a recorded access: [{thread, at, value}]. `at` is the first float that it
   * touches or, in a shuffle, the thread whose value it gets; what it stores or had is `value`. */
  function threadsOf([kind, , size, places, values]) {
    const all = kind === "shuffle"
      ? Array.from({length: size}, (_, thread) =>
        ({thread, at: thread - thread % kWarp + places[thread % kWarp]}))
      : places.flatMap(([thread, count, at, apart]) =>
        Array.from({length: count}, (_, i) => ({thread: thread + i, at: at + i * apart})));
    return all.map((one, i) => ({...one, value: values[i] ?? 0}));
  }

  // What an access does to the state (see stateAfter). A thread's cell is {text, note}.

  function takeBarrier(state, run) {
    ++state.barriers;
    for (let t = 0; t < run.threads; ++t) state.cells.set(t, {text: "waits", note: "\u00a0"});
  }

  /** A lane that gets its own value has no partner, and does not add it. */
  function takeShuffle({cells, sums, terms}, active) {
    for (const {thread, at, value} of active) {
      terms[thread] = at === thread ? [value] : [value, active[at].value];
      sums[thread] = terms[thread].reduce((a, b) => a + b);
      const note = at === thread ? "\u2013" : `\u2190 ${at % kWarp}`;
      cells.set(thread, {text: show(sums[thread], 1), note});
    }
  }

  /** A thread's second access in a step is to what it adds, or where it stores the sum. */
  function takeSums({cells, sums, terms, shared}, active, [kind, what]) {
    for (const {thread, at, value} of active) {
      if (kind === "shared store") (shared[what] ??= [])[at] = value;
      else (terms[thread] ??= []).push(shared[what][at]);
      sums[thread] = shared[what][at];
      const last = Math.max(at, cells.get(thread)?.at ?? 0);
      const note = what === "total" ? what : last > at ? `+[${last}]` : `[${at}]`;
      cells.set(thread, {text: show(sums[thread], 1), note, at: last});
    }
  }

  function takeColumns({cells, read}, active, [, what, floats], run) {
    for (const {thread, at} of active) {
      if (what === "x") for (let i = 0; i < floats; ++i) read.add(at + i);
      if (what === "weight" && cells.has(thread)) continue;  // it has the same columns of x
      const first = at % run.columns;
      const row = what === "weight" || run.blocks === rows ? "" : `row ${Math.floor(at / run.columns)}`;
      cells.set(thread, {
        text: floats === 1 ? String(first) : `${first}\u2013${first + floats - 1}`,
        note: row || (floats === 1 ? "col" : "cols"),
      });
    }
  }

  function take(state, run, access) {
    const [kind, what] = access;
    if (kind === "barrier") return takeBarrier(state, run);
    const active = threadsOf(access);
    if (kind === "shuffle") {
      ++state.shuffles;
      return takeShuffle(state, active);
    }
    return (kSums.includes(what) ? takeSums : takeColumns)(state, active, access, run);
  }

  /**
   * What has happened after the first `done` steps of a run.
   *
   * @returns {step, cells, terms, read, shared, sums, barriers, shuffles}: the last step as it is
   *   recorded; for each thread that takes part in it what its cell says and what it adds up; which
   *   floats of x it reads; and from all steps until then: shared memory's sums, each thread's, and
   *   how many barriers and shuffles there have been
   */
  function stateAfter(run, done) {
    const state = {shared: {}, sums: [], barriers: 0, shuffles: 0};
    for (const step of [undefined, ...run.steps.slice(0, done)]) {
      Object.assign(state, {step, cells: new Map(), terms: [], read: new Set()});
      for (const access of step?.slice(1) ?? []) take(state, run, access);
    }
    return state;
  }

  function startSentence(run) {
    const share = run.blocks < rows ? `${run.threads / rows} threads` : "a block";
    return `${rows} rows of ${run.columns} columns: ${plural(run.blocks, "block")} of ` +
      `${run.threads} threads, ${share} for each row. Nothing has run yet.`;
  }

  /** The numbers in the cells of a step are columns, and no sums. */
  function hasColumns({step}) {
    return step.slice(1).some(([kind, what]) => kind.includes(" ") && !kSums.includes(what));
  }

  /** What the last step did, in words. */
  function sentenceFor(run, state) {
    if (!state.step) return startSentence(run);
    const accesses = state.step.slice(1);
    const [kind, what, floats] = accesses[0];
    if (kind === "barrier") return `All ${run.threads} threads wait until the last one has come.`;
    const count = state.cells.size;
    const s = count === 1 ? "s" : "";
    const adds = state.terms[0]?.length === 2
      ? ` Thread 0: ${state.terms[0].join(" + ")} = ${state.sums[0]}.` : "";
    if (kind === "shuffle") {
      return `Each lane gets the number of another lane of its warp, and adds it.${adds}`;
    }
    if (adds !== "") {
      return `${plural(count, "thread")} add${s} two numbers of ${what} in shared memory.${adds}`;
    }
    const list = accesses.map(([kind, what]) => {
      const [memory, does] = kind.split(" ");
      return `${does}${s} ${what} ${does === "load" ? "from" : "to"} ${memory} memory`;
    }).join(", ").replace(/, (?=[^,]*$)/, " and ");
    const each = !hasColumns(state) ? "" : floats === 1 ? ": a column each" : `: ${floats} columns each`;
    const isLast = accesses.some(([, what]) => what === "y");
    const sum = state.sums[0];
    const rstd = `1 / \u221a(${sum} / ${run.columns} + ${show(eps, 6)})`;
    const scale = isLast
      ? ` ${run.blocks < rows ? "For row 0, rstd" : "rstd"} is ${rstd} = ` +
        `${show(1 / Math.sqrt(sum / run.columns + eps), 4)}.` : "";
    return `${plural(count, "thread")} ${list}${each}.${scale}`;
  }

  return {rows, x, runs, kWarp, stateAfter, sentenceFor, hasColumns};
})();

figures.start("ladder", function (place) {
  const {element, field, choice, button, plural, ladder} = figures;
  const {rows, x, runs, kWarp} = ladder;
  const kShown = 64;  // places of an array in shared memory
  const kPause = 1000;  // ms between two steps

  // What a link asks for: a lesson, a number of columns, a step.
  const wanted = new URLSearchParams(location.search);
  const ofLesson = runs.filter(({slug}) => slug.startsWith(wanted.get("lesson") ?? "02"));
  let run = ofLesson.find(({columns}) => columns === Number(wanted.get("columns") ?? 64)) ??
    ofLesson[0] ?? runs[0];
  let done = 0;
  let warp = 0;  // whose lanes are shown
  let timer;
  let dots = [];  // the marks of all threads in the drawing of the block

  // ---- What can be chosen

  const unique = (list) => [...new Set(list)];
  function select(slug, columns) {
    run = runs.find((one) => one.slug === slug && one.columns === columns);
    warp = 0;
    buildBlock();
    go(1);
  }
  const titles = unique(runs.map(({slug}) => slug)).map((slug) =>
    [slug, `${slug.slice(0, 2)} ${runs.find((one) => one.slug === slug).title}`]);
  const lessonField = field({
    label: "Lesson", input: choice(titles),
    read: (value) => ({value}), take: (slug) => select(slug, run.columns),
  });
  const lengths = unique(runs.map(({columns}) => columns)).map((columns) => [columns, String(columns)]);
  const lengthField = field({
    label: "Columns of a row", input: choice(lengths),
    read: (value) => ({value: Number(value)}), take: (columns) => select(run.slug, columns),
  });
  lessonField.set(run.slug);
  lengthField.set(run.columns);
  const settings = element(
    "div", {class: "figure-settings", role: "group", "aria-label": "Settings"},
    lessonField.box, lengthField.box);

  // ---- The steps

  const slider = element("input", {type: "range", min: "0", value: "0", "aria-label": "Step"});
  slider.addEventListener("input", () => go(Number(slider.value)));
  const position = element("a", {class: "figure-position", title: "A link to this step"});
  const first = button("First", () => go(0), "First step");
  const back = button("Back", () => go(done - 1), "One step back");
  const next = button("Next", () => go(done + 1), "Next step");
  next.classList.add("figure-main");
  const last = button("Last", () => go(Infinity), "Last step");
  const play = button("Play", () => (timer ? pause() : start()));
  play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const stepper = element(
    "div", {class: "figure-stepper", role: "group", "aria-label": "Steps"},
    element("div", {class: "figure-buttons"}, first, back, next, last, play), slider, position);

  function pause() {
    clearInterval(timer);
    timer = undefined;
    play.textContent = "Play";
    sentence.setAttribute("aria-live", "polite");
  }

  function start() {
    if (done === run.steps.length) go(0);
    play.textContent = "Pause";
    sentence.setAttribute("aria-live", "off");
    timer = setInterval(() => {
      move(done + 1);
      if (done === run.steps.length) pause();
    }, kPause);
  }

  function go(target) {
    pause();
    move(target);
  }

  function move(target) {
    done = Math.max(0, Math.min(target, run.steps.length));
    draw();
  }

  // ---- What is drawn

  const code = element("code", {class: "figure-code"});
  const sentence = element("p", {class: "figure-sentence", role: "status"});
  const counts = element("p", {class: "figure-counts"});
  const blockTitle = element("p", {class: "figure-title"});
  const block = element("div", {class: "figure-warps", role: "group", "aria-label": "Warps"});
  const warpTitle = element("p", {class: "figure-title"});
  const lanes = element("div", {class: "figure-lanes"}, element("div"));
  const row = element("div");
  const memory = element("div");

  /** How a step's active threads are coloured. */
  function colour({step}) {
    const kinds = step?.slice(1).map(([kind]) => kind) ?? [];
    return kinds.includes("global store") ? "written" : kinds[0] === "barrier" ? "waiting"
      : kinds[0] === "global load" ? "loading" : "sharing";
  }

  function buildBlock() {
    const warps = run.threads / kWarp;
    const has = run.blocks < rows ? `all ${rows} rows` : "row 0";
    blockTitle.textContent = `Block 0, which has ${has}: ${warps} warps. Choose one to see its lanes.`;
    dots = Array.from({length: run.threads}, () => element("span"));
    block.replaceChildren(...Array.from({length: warps}, (_, w) => {
      const made = button("", () => {
        warp = w;
        draw();
      });
      made.append(
        element("span", {}, `warp ${w}`), element("span"),
        element("span", {class: "figure-dots", "aria-hidden": "true"},
          ...dots.slice(w * kWarp, (w + 1) * kWarp)));
      return made;
    }));
  }

  function drawBlock(state) {
    dots.forEach((dot, thread) => dot.classList.toggle("figure-active", state.cells.has(thread)));
    [...block.children].forEach((made, w) => {
      const active = made.querySelectorAll(".figure-active").length;
      made.children[1].textContent = `${active} of ${kWarp}`;
      made.setAttribute("aria-pressed", String(w === warp));
    });
  }

  function drawLanes(state) {
    const first = warp * kWarp;
    warpTitle.textContent = `Warp ${warp}, threads ${first} to ${first + kWarp - 1}` +
      (!state.step ? "" : state.step[1][0] === "barrier" ? ": all wait"
        : ladder.hasColumns(state) ? ": which columns" : ": the sum that each has now");
    lanes.firstChild.replaceChildren(...Array.from({length: kWarp}, (_, lane) => {
      const {text, note} = state.cells.get(warp * kWarp + lane) ?? {text: "idle", note: "\u00a0"};
      const isIdle = text === "idle";
      return element(
        "div", {class: `figure-lane${isIdle ? " figure-idle" : " figure-active"}`},
        element("span", {class: "figure-address"}, String(lane)), element("span", {}, text),
        element("span", {class: "figure-address"}, note));
    }));
  }

  /** A strip of numbers, some of them marked. */
  function strip(title, values, isMarked, mark) {
    return [
      element("p", {class: "figure-title"}, title),
      element("div", {class: "figure-numbers"}, ...values.map((value, i) => element(
        "span", {class: `figure-word${isMarked(i) ? ` ${mark}` : ""}`},
        value === undefined ? "" : figures.show(value, 1)))),
    ];
  }

  function drawNumbers(state) {
    row.replaceChildren(...strip(
      "x, row 0: what is loaded in this step is marked", x.slice(0, run.columns),
      (i) => state.read.has(i), "figure-taken"));
    memory.replaceChildren(...Object.entries(state.shared).flatMap(([name, values]) => {
      const rest = values.slice(kShown);
      const zeros = rest.every((value) => value === 0) ? "; the others are 0" : "";
      const part = rest.length === 0 ? "" : `: the first ${kShown} of ${values.length}${zeros}`;
      return strip(
        `${name}, in shared memory${part}`, values.slice(0, kShown), () => true, "figure-sum");
    }));
  }

  /** How many of a kind the run has, and how many of them are done. */
  function total(kind) {
    return run.steps.filter(([, [found]]) => found === kind).length;
  }

  function draw() {
    const state = ladder.stateAfter(run, done);
    const count = run.steps.length;
    slider.max = String(count);
    slider.value = String(done);
    slider.setAttribute("aria-valuetext", `${done} of ${count}`);
    position.textContent = `step ${done} of ${count}`;
    position.href = "figure_ladder.html?" + new URLSearchParams(
      {lesson: run.slug.slice(0, 2), columns: run.columns, step: done});
    for (const one of [first, back]) one.setAttribute("aria-disabled", String(done === 0));
    for (const one of [next, last]) one.setAttribute("aria-disabled", String(done === count));
    code.textContent = state.step?.[0] ?? "\u00a0";
    sentence.textContent = ladder.sentenceFor(run, state);
    const active = state.cells.size;
    counts.textContent = [
      colour(state) === "waiting" ? `all ${run.threads} threads wait`
        : `${active} of ${run.threads} threads at work, ${run.threads - active} idle`,
      `${state.barriers} of ${plural(total("barrier"), "barrier")}`,
      `${state.shuffles} of ${plural(total("shuffle"), "shuffle")}`,
    ].join(" \u00b7 ");
    place.dataset.step = colour(state);
    drawBlock(state);
    drawLanes(state);
    drawNumbers(state);
  }

  place.replaceChildren(
    settings, stepper, code, sentence, counts, blockTitle, block, warpTitle, lanes, row, memory);
  buildBlock();
  go(Number(wanted.get("step") ?? 1));
  if (!("plays" in place.dataset) || play.hidden) return;
  new IntersectionObserver(([{isIntersecting}], watcher) => {
    if (!isIntersecting) return;
    watcher.disconnect();
    start();
  }, {threshold: 0.5}).observe(place);
});
