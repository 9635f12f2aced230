// What the pages do beyond showing text. Everything works from file://, with no other host.
"use strict";

DoxygenAwesomeDarkModeToggle.init();
DoxygenAwesomeFragmentCopyButton.init();
DoxygenAwesomeParagraphLink.init();
DoxygenAwesomeInteractiveToc.init();

// A new element, with properties and children.
function make(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Formulas. An element of class "math" holds one; a block of its own is set as display.
function setFormulas() {
  for (const element of document.querySelectorAll(".math")) {
    const source = element.textContent;
    katex.render(source, element, { displayMode: element.tagName === "DIV", throwOnError: true });
  }
}

// A frame that has nothing to scroll need not stop the tab key.
function markFrames() {
  for (const frame of document.querySelectorAll(".scroll, .math.wide")) {
    if (frame.scrollWidth > frame.clientWidth) {
      frame.setAttribute("tabindex", "0");
    } else {
      frame.removeAttribute("tabindex");
    }
  }
}

// doxygen-awesome's buttons are no buttons to a keyboard or a screen reader: these make them so.
function asButton(element, label) {
  element.setAttribute("role", "button");
  element.setAttribute("tabindex", "0");
  if (label) element.setAttribute("aria-label", label);
}

function pressOnKeys(event) {
  if ((event.key !== "Enter" && event.key !== " ") || event.target.localName === "button") return;
  if (event.target.getAttribute("role") !== "button") return;
  event.preventDefault();
  if (!event.repeat) event.target.click();
}

const themeSwitch = "doxygen-awesome-dark-mode-toggle";

function tellTheme() {
  const dark = document.documentElement.classList.contains("dark-mode");
  document.querySelector(themeSwitch)?.setAttribute("aria-pressed", dark);
}

// Doxygen has no landmarks.
function nameLandmarks() {
  document.getElementById("doc-content").setAttribute("role", "main");
  const tree = document.getElementById("side-nav");
  tree.setAttribute("role", "navigation");
  tree.setAttribute("aria-label", "All pages");
}

// The sections of a page, beside its text. Terms of the glossary are many, and so are results.
function listSections() {
  const heads = document.querySelectorAll(
    ".textblock :is(h2, h3:not(:has(+ .meaning))):has(> .anchor)");
  if (heads.length === 0 || document.querySelector(".sortable")) return;
  const items = [...heads].map((head) => {
    const href = `#${head.querySelector(".anchor").id}`;
    const link = make("a", {href, textContent: head.textContent});
    return make("li", {className: `level${head.localName[1] - 1}`}, link);
  });
  const title = make("h3", {textContent: "On this page"});
  const contents = make("div", {className: "toc"}, title, make("ul", {}, ...items));
  document.querySelector(".contents").prepend(contents);
}

// What is new on the page: its scripts add buttons after it has loaded, and the tree of pages grows.
function makeReachable() {
  for (const element of document.querySelectorAll(`${themeSwitch}:not([role])`)) {
    asButton(element, "Dark theme");
    tellTheme();
  }
  for (const element of document.querySelectorAll(
    "doxygen-awesome-fragment-copy-button:not([role])")) asButton(element, "Copy the code");
  for (const icon of document.querySelectorAll("td.entry a:has(> .icondoc):not([aria-label])"))
    icon.setAttribute("aria-label", `Source of ${icon.nextElementSibling.textContent}`);
  // The arrows of the tree are for the mouse: the page they stand at has its own link.
  for (const arrow of document.querySelectorAll("#nav-tree a:has(> .arrow):not([aria-hidden])")) {
    arrow.setAttribute("tabindex", "-1");
    arrow.setAttribute("aria-hidden", "true");
  }
}

// On a narrow page the tree of all pages is a drawer.
function makeDrawer() {
  const button = document.querySelector(".all-pages");
  const root = document.documentElement;
  const show = (open) => {
    root.classList.toggle("drawer", open);
    button.setAttribute("aria-expanded", open);
  };
  button.addEventListener("click", () => show(!root.classList.contains("drawer")));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !root.classList.contains("drawer")) return;
    show(false);
    button.focus();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#side-nav, .all-pages")) show(false);
  });
}

// On a narrow page its contents open and close.
function makeContents() {
  const toc = document.querySelector(".contents > .toc");
  const head = toc?.querySelector("h3");
  if (!head) return;
  const narrow = window.matchMedia("(max-width: 999px)");
  const tell = () => {
    if (narrow.matches) {
      asButton(head);
      head.setAttribute("aria-expanded", toc.classList.contains("open"));
    } else {
      head.setAttribute("role", "presentation");
      head.removeAttribute("tabindex");
      head.removeAttribute("aria-expanded");
    }
  };
  new MutationObserver(tell).observe(toc, { attributeFilter: ["class"] });
  narrow.addEventListener("change", tell);
  tell();
}

// Tables of results: a click on a head sorts.
function sortTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const ofNumbers = heads.map((head) => head.classList.contains("number"));
    const value = (cell) => Number(cell.dataset.value ?? cell.textContent);  // NaN: no number
    for (const {cells} of body.rows)
      for (const cell of cells) cell.classList.toggle("number", ofNumbers[cell.cellIndex]);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      const cells = [...body.rows].map((row) => row.cells[column]);
      const order = (a, b) => {
        if (!ofNumbers[column]) return a.textContent.localeCompare(b.textContent) * sign;
        const missing = (cell) => Number(isNaN(value(cell)));
        if (missing(a) || missing(b)) return missing(a) - missing(b);  // last, either way
        return (value(a) - value(b)) * sign;
      };
      body.append(...cells.sort(order).map((cell) => cell.parentElement));
    }));
    showOneCase(table);
  }
}

// Of a table's rows those of one case, first the one of prefill that has most, and of its columns the
// first ones: two fields show the rest.
function showOneCase(table) {
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  const rows = [...table.tBodies[0].rows];
  const places = ["regime", "type", "L2", "operation"].map((head) => heads.indexOf(head));
  const cases = new Map();
  for (const row of rows) {
    const name = places.filter((at) => at >= 0).map((at) => row.cells[at].textContent).join(", ");
    cases.set(name, [...(cases.get(name) ?? []), row]);
  }
  const names = [...cases.keys()].map((name) => new Option(name));
  const list = make("select", {}, ...names, new Option("everything", ""));
  const size = ([name, its]) => (name.includes("prefill") ? rows.length : 0) + its.length;
  list.value = [...cases].reduce((a, b) => (size(b) > size(a) ? b : a))[0];
  const all = make("input", {type: "checkbox"});
  const show = () => {
    for (const [name, its] of cases)
      for (const row of its) row.hidden = list.value !== "" && list.value !== name;
    for (const {cells} of table.rows)
      for (const cell of [...cells].slice(table.dataset.columns)) cell.hidden = !all.checked;
    markFrames();
  };
  const box = make(
    "div", {className: "filters"}, make("label", {}, "show ", list),
    make("label", {}, "all columns ", all));
  box.addEventListener("change", show);
  table.closest(".scroll").before(box);
  show();
}

// A lesson asks for a guess, and a folded table has the answer: the times of the lesson, and of what
// the question compares it with.
function askForGuess() {
  const slug = location.pathname.match(/lesson_(\w+)\.html/)?.[1];
  const asked = [...document.querySelectorAll(".contents p")]
    .find((one) => one.textContent.includes("--predict"));
  let fold = asked?.nextElementSibling;
  while (fold && fold.localName !== "details") fold = fold.nextElementSibling;
  const table = fold?.querySelector("table");
  if (!slug || !table) return;
  const names = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  const own = names.indexOf(slug);
  if (own < 3) return;  // what it is compared with is elsewhere
  const others = names.slice(2, own);
  const other = names.indexOf(others.findLast((name) => !name.includes("/")) ?? others[0]);
  const question = asked.textContent;
  const regime = question
    .match(/.*\b(prefill|batch|decode|heads|wide|backward)\b.*--predict/s)?.[1];
  const types = question.includes("bf16") ? /^(?!.*fp(32|16))/ : /^/;
  const time = (cell) => parseFloat(cell?.textContent);
  const rows = [...table.tBodies[0].rows].map(({cells}) => [cells[0].textContent, cells]);
  const inFp32 = (name) =>  // where the other kernel knows fp32 alone
    rows.find(([its]) => its === name.replace(/bf16$/, "fp32"))?.[1][other];
  const found = rows
    .map(([name, cells]) => ({
      name, factor: (time(cells[other]) || time(inFp32(name))) / time(cells[own])}))
    .filter(({name, factor}) => name.startsWith(regime) && types.test(name) && factor > 0);
  if (found.length === 0) return;
  const form = make("form", {className: "guess"});
  form.innerHTML = `<label>Your guess: <input type="number" min="0.01" step="any" required
    aria-label="Your guess"> times as fast</label> <button>Compare</button><output></output>`;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const guess = Number(form.querySelector("input").value);
    form.querySelector("output").textContent = found.map(({name, factor}) => {
      const off = Math.round(100 * Math.abs(guess / factor - 1));
      return `${name}: ${factor.toFixed(2)} times as fast as ${names[other]}; your guess is ` +
        (off === 0 ? "right." : `${off} % too ${guess > factor ? "high" : "low"}.`);
    }).join(" ");
  });
  asked.after(form);
}

// Search: every word of the question, without its ending, must begin a word of the section, or stand
// in its heading.
const search = {
  // The kinds of pages, in the order in which they answer a question that is a term.
  lesson: 1, other: 2, reference: 3,

  // Words for which the pages have others.
  aliases: new Map(Object.entries(
    {quickstart: "start", benchmark: "measure", install: "setup", simd: "vector"})),

  words: (text) => text.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean),

  // "vectorized", "vectorised" and "vectors" are all "vector".
  stem: (word) => (search.aliases.get(word) ?? word).replace(/iz(?=e|ing|ation)/, "is")
    .replace(/^(.{4,}?)(is(es?|ed|ing|ations?)|ing|ed|es|s)$/, "$1"),

  // The sections of a page, and what stands before the first, each with its address and its text.
  sections([name, html]) {
    const page = new DOMParser().parseFromString(html, "text/html").body;
    const textOf = (node) => node.textContent.replace(/[\s\u25c6]+/g, " ").trim();
    const title = textOf(page.querySelector("h1"));
    const found = [{ address: name, page: title, section: "", text: "" }];
    const aside = "h1, script, style, svg, button, select, nav, .lesson-links, " +
      "details:has(> .diff), [hidden]";
    for (const part of page.querySelectorAll(aside)) part.remove();
    const walker = document.createTreeWalker(page, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.nodeType === Node.TEXT_NODE) {
        if (!node.parentElement.closest("h2, h3")) found.at(-1).text += node.data;
      } else if (node.matches("h2, h3")) {
        const id = node.id || node.querySelector("[id]")?.id;
        const address = name + (id ? `#${id}` : node.querySelector("a")?.hash ?? "");
        found.push({ address, page: title, section: textOf(node), text: "" });
      } else if (!node.matches("a, code, span")) {
        found.at(-1).text += " ";
      }
    }
    return found;
  },

  // The index is loaded when it is first needed.
  load() {
    if (search.loading) return search.loading;
    search.loading = new Promise((done) => {
      const script = make("script", {src: "search_index.js"});
      script.addEventListener("load", () => {
        search.entries = SEARCH_INDEX.flatMap(search.sections).map((entry, rank) => {
          const { page, section } = entry;
          const text = entry.text.replace(/\s+/g, " ").trim();
          const heading = section || page;
          const kind = /^(class|struct|source_)|_8hp*\b/.test(entry.address) ? search.reference :
            entry.address.startsWith("lesson_") ? search.lesson : search.other;
          // What the glossary explains there: "L1, L2".
          const terms = entry.address.startsWith("glossary.html#s_term_") ?
            heading.split(", ").map((name) => search.words(name).map(search.stem).join(" ")) : [];
          return { ...entry, heading, text, rank, kind, terms,
            heads: search.words(heading).map(search.stem),
            all: new Set(search.words(`${page} ${section} ${text}`)) };
        });
        done();
      });
      document.head.append(script);
    });
    return search.loading;
  },

  score(entry, words) {
    let score = 0;
    for (const word of words) {
      const exact = entry.heads.includes(word);
      const begins = exact || entry.heads.some((head) => head.startsWith(word));
      const inText = begins || entry.all.has(word) || [...entry.all].some((w) => w.startsWith(word));
      if (!inText) return 0;
      score += exact ? 100 / entry.heads.length + 20 :
        begins && entry.kind !== search.reference ? 15 : 1;
    }
    // Lessons come before other pages, and those before the reference, if it has not the very name.
    return score * (entry.kind === search.reference ? 0.5 : entry.kind === search.lesson ? 2 : 1);
  },

  // How many letters have to be changed, added, left out or swapped with the next; at most 2 count.
  distance(a, b) {
    if (Math.abs(a.length - b.length) > 2) return 3;
    let [older, old, now] = [[], [], [...Array(b.length + 1).keys()]];
    for (let i = 1; i <= a.length; ++i) {
      [older, old, now] = [old, now, [i]];
      for (let k = 1; k <= b.length; ++k) {
        now[k] = Math.min(old[k] + 1, now[k - 1] + 1, old[k - 1] + (a[i - 1] !== b[k - 1]));
        if (a[i - 1] === b[k - 2] && a[i - 2] === b[k - 1]) now[k] = Math.min(now[k], older[k - 2] + 1);
      }
    }
    return now[b.length];
  },

  // A word of the pages that a misspelt one may mean: the nearest, and of those the most frequent.
  nearest(word) {
    const allowed = word.length < 4 ? 0 : word.length < 8 ? 1 : 2;
    const count = new Map();
    for (const entry of search.entries)
      for (const known of entry.all) count.set(known, (count.get(known) ?? 0) + 1);
    return [...count]
      .map(([known, times]) => ({ known, times, far: search.distance(word, known) }))
      .filter(({ far }) => far <= allowed)
      .sort((x, y) => x.far - y.far || y.times - x.times)[0]?.known ?? word;
  },

  find(question) {
    const words = search.words(question).map(search.stem);
    if (words.length === 0) return [];
    // A term, or its plural: first what it means, then the lessons, then the other pages.
    const asked = words.join(" ");
    const term = search.entries.flatMap((entry) => entry.terms).find((name) => name === asked);
    const place = (entry) => !term || entry.terms.includes(term) ? 0 : entry.kind;
    return search.entries
      .map((entry) => ({ entry, score: search.score(entry, words) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => place(a.entry) - place(b.entry) || b.score - a.score ||
        a.entry.kind - b.entry.kind || a.entry.rank - b.entry.rank)
      .slice(0, 12)
      .map(({ entry }) => entry);
  },

  // The text around the first of the words.
  excerpt(entry, [word]) {
    const begins = new RegExp(`\\b${search.stem(word)}`, "i");
    const at = Math.max(0, entry.text.search(begins));
    const begin = at < 50 ? 0 : entry.text.indexOf(" ", at - 50) + 1;
    return (begin > 0 ? "\u2026 " : "") + entry.text.slice(begin, begin + 140);
  },

  show(question) {
    const box = document.getElementById("search-results");
    let words = search.words(question);
    let found = search.find(question);
    let meant = "";
    if (found.length === 0) {
      words = words.map(search.nearest);
      found = search.find(words.join(" "));
      if (found.length > 0) meant = ` for \u201c${words.join(" ")}\u201d`;
    }
    box.hidden = words.length === 0;
    box.replaceChildren();
    const status = make("p", {textContent: found.length === 0 ? "Nothing found." :
      (found.length === 1 ? "1 place" : `${found.length} places`) + meant});
    status.setAttribute("role", "status");
    box.append(status);
    for (const entry of found) {
      const link = make(
        "a", {href: entry.address}, make("span", {className: "what", textContent: entry.heading}),
        make("span", {className: "where", textContent: entry.section ? entry.page : ""}),
        make("span", {className: "why", textContent: search.excerpt(entry, words)}));
      link.addEventListener("click", () => { box.hidden = true; });
      box.append(link);
    }
  },

  start() {
    const field = document.getElementById("search-field");
    const box = document.getElementById("search-results");
    const update = () => search.load().then(() => search.show(field.value));
    field.addEventListener("input", update);
    field.addEventListener("focus", search.load);
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing) {
        event.preventDefault();
        field.focus();
      } else if (event.key === "Escape" && !box.hidden) {
        box.hidden = true;
        field.focus();
      } else if (event.key === "Enter" && document.activeElement === field) {
        const first = box.querySelector("a");
        if (first && !box.hidden) first.click();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const stops = [field, ...box.querySelectorAll("a")];
        const here = stops.indexOf(document.activeElement);
        if (box.hidden || here < 0) return;
        event.preventDefault();
        const next = here + (event.key === "ArrowDown" ? 1 : -1);
        stops[Math.min(Math.max(next, 0), stops.length - 1)].focus();
      }
    });
    document.addEventListener("click", (event) => {
      if (!box.contains(event.target) && event.target !== field) box.hidden = true;
    });
  },
};

document.addEventListener("DOMContentLoaded", () => {
  search.start();
  if (document.querySelector(".math")) setFormulas();
  sortTables();
  askForGuess();
  markFrames();
  window.addEventListener("resize", markFrames);
  document.addEventListener("toggle", markFrames, true);  // what was folded had no width
  nameLandmarks();
  listSections();
  makeContents();
  makeDrawer();
  makeReachable();
  new MutationObserver(makeReachable).observe(document.body, { childList: true, subtree: true });
  new MutationObserver(tellTheme).observe(
    document.documentElement, { attributeFilter: ["class"] });
  document.addEventListener("keydown", pressOnKeys);
});
