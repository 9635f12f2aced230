/**
 * RMSNorm, block by block: one program a row, columns in blocks, a mask for the tail.
 *
 * figures.rmsNorm is the arithmetic, without a page; below it is what draws it.
 */
"use strict";

figures.rmsNorm = (function () {
  /** The example that every reader can recompute. */
  const example = {
    x: [
      [2, -1, 3, 0.5, -0.5, 1.5, -2, 1],
      [4, -3, 2.5, 1, -1.5, 0, -0.5, 2],
      [-1, 3.5, -2.5, 1.5, 0, -3, 2.5, -0.5],
    ],
    weight: [1, 1, 1, 1, 1, 1, 1, 1],
    eps: 1e-5,
    block: 4,
  };

  /**
   * What a run does, in order. A step is {kind, row, block, first, end, masked}: kind "sum" or
   * "write" for the columns first to end - 1, with `masked` places of the block beyond the row;
   * or {kind: "rstd", row}.
   */
  function stepsOf({x, block}) {
    const columns = x[0].length;
    return x.flatMap((_, row) => {
      const blocks = (kind) => Array.from({length: Math.ceil(columns / block)}, (_, b) => {
        const end = Math.min((b + 1) * block, columns);
        return {kind, row, block: b, first: b * block, end, masked: (b + 1) * block - end};
      });
      return [...blocks("sum"), {kind: "rstd", row}, ...blocks("write")];
    });
  }

  /**
   * What is known after the first `done` steps.
   *
   * @param problem {x: rows of numbers, weight, eps, block}
   * @returns {steps, current, rows, y}; current is the last step or undefined; a row is
   *   {sum, mean, rms, rstd, status}, with undefined for what is not known yet; y likewise
   */
  function stateAfter(problem, done) {
    const {x, weight, eps, block} = problem;
    const columns = x[0].length;
    const blocks = Math.ceil(columns / block);
    const steps = stepsOf(problem);
    const rows = x.map(() => ({status: "waiting"}));
    const y = x.map((row) => row.map(() => undefined));
    for (const step of steps.slice(0, done)) {
      const row = rows[step.row];
      if (step.kind === "sum") {
        row.sum = (row.sum || 0) + sumOfSquares(x[step.row].slice(step.first, step.end));
        row.status = `summing, ${step.block + 1} of ${blocks}`;
      } else if (step.kind === "rstd") {
        row.mean = row.sum / columns;
        row.rms = Math.sqrt(row.mean + eps);
        row.rstd = 1 / row.rms;
        row.status = "rstd known";
      } else {
        for (let c = step.first; c < step.end; ++c) {
          y[step.row][c] = x[step.row][c] * row.rstd * weight[c];
        }
        row.status = step.end === columns ? "done" : `writing, ${step.block + 1} of ${blocks}`;
      }
    }
    return {steps, current: steps[done - 1], rows, y};
  }

  function sumOfSquares(values) {
    return values.reduce((sum, value) => sum + value * value, 0);
  }

  /** What the last step did, in words. */
  function sentenceFor(problem, state) {
    const {show, plural} = figures;
    const {x, eps, block} = problem;
    const columns = x[0].length;
    const blocks = Math.ceil(columns / block);
    const step = state.current;
    if (!step) {
      return `Nothing is read yet. Each row is ${plural(columns, "column")} long: ` +
        `${plural(blocks, "block")} of ${block}.`;
    }
    const row = state.rows[step.row];
    if (step.kind === "rstd") {
      return `Row ${step.row}: mean = ${show(row.sum, 5)} / ${columns} = ${show(row.mean, 5)}; ` +
        `RMS = \u221a(mean + ${show(eps, 5)}) = ${show(row.rms, 4)}; ` +
        `rstd = 1 / RMS = ${show(row.rstd, 4)}.`;
    }
    const where = step.end - step.first === 1
      ? `column ${step.first}` : `columns ${step.first} to ${step.end - 1}`;
    const head = `Row ${step.row}, block ${step.block + 1} of ${blocks}, ${where}: `;
    const mask = step.masked === 0 ? "" :
      ` The mask leaves out ${plural(step.masked, "place")} beyond the row.`;
    if (step.kind === "write") {
      return `${head}y = x \u00b7 ${show(row.rstd, 4)} \u00b7 weight.${mask}`;
    }
    const values = x[step.row].slice(step.first, step.end);
    const squares = values
      .map((value) => (value < 0 ? `(${show(value, 4)})\u00b2` : `${show(value, 4)}\u00b2`))
      .join(" + ");
    return `${head}${squares} = ${show(sumOfSquares(values), 5)}. ` +
      `The sum is now ${show(row.sum, 5)}.${mask}`;
  }

  return {example, stepsOf, stateAfter, sentenceFor};
})();

figures.start("rms-norm", function (place) {
  const {element, field, choice, button, scrollBox, readWhole, readNumber, show, rmsNorm} = figures;
  const kMostRows = 8;
  const kMostColumns = 16;
  const kLargest = 100000;

  // All values there can be; the figure shows the first rows and columns.
  const values = {x: [], weight: []};
  const shape = {rows: 3, columns: 8};
  let eps = rmsNorm.example.eps;
  let block = rmsNorm.example.block;
  let done = 0;

  function fillWithExample() {
    for (let r = 0; r < kMostRows; ++r) {
      values.x[r] = [];
      for (let c = 0; c < kMostColumns; ++c) {
        values.x[r][c] = rmsNorm.example.x[r]?.[c] ?? ((7 * r + 5 * c) % 13 - 6) / 2;
      }
    }
    for (let c = 0; c < kMostColumns; ++c) values.weight[c] = 1;
  }

  function fillAtRandom() {
    const random = (least, most) => Math.round(10 * (least + (most - least) * Math.random())) / 10;
    for (const row of values.x) row.forEach((_, c) => (row[c] = random(-4, 4)));
    values.weight.forEach((_, c) => (values.weight[c] = random(0.5, 1.5)));
  }

  function problem() {
    return {
      x: values.x.slice(0, shape.rows).map((row) => row.slice(0, shape.columns)),
      weight: values.weight.slice(0, shape.columns),
      eps,
      block,
    };
  }

  // ---- The settings

  /** A field whose value is shape[name]. */
  function sizeField(label, name, most) {
    const input = element("input", {type: "number", min: "1", max: String(most), step: "1"});
    return field({
      label, input,
      read: (text) => readWhole(text, 1, most),
      take(value) {
        shape[name] = value;
        reshape();
      },
    });
  }
  const rowsField = sizeField("Rows", "rows", kMostRows);
  const columnsField = sizeField("Columns", "columns", kMostColumns);
  const blockField = field({
    label: "Block size",
    input: choice([1, 2, 4, 8, 16].map((size) => [size, String(size)])),
    read: (text) => ({value: Number(text)}),
    take(size) {
      block = size;
      reshape();
    },
  });
  const epsField = field({
    label: "eps",
    input: element("input", {type: "text", inputmode: "decimal", autocomplete: "off", size: "6"}),
    read: (text) => readNumber(text, 0, 1),
    take(value) {
      eps = value;
      draw();
    },
  });
  const settings = element(
    "div", {class: "figure-settings", role: "group", "aria-label": "Settings"},
    rowsField.box, columnsField.box, blockField.box, epsField.box);
  const examples = element(
    "div", {class: "figure-buttons", role: "group", "aria-label": "Examples"},
    button("Worked example", startWithExample),
    button("Random numbers", () => {
      fillAtRandom();
      reshape();
    }));

  function startWithExample() {
    fillWithExample();
    shape.rows = rmsNorm.example.x.length;
    shape.columns = rmsNorm.example.weight.length;
    eps = rmsNorm.example.eps;
    block = rmsNorm.example.block;
    rowsField.set(shape.rows);
    columnsField.set(shape.columns);
    blockField.set(block);
    epsField.set("1e-5");
    reshape();
  }

  // ---- The steps

  const slider = element("input", {type: "range", min: "0", value: "0", "aria-label": "Step"});
  slider.addEventListener("input", () => go(Number(slider.value)));
  const position = element("span", {class: "figure-position"});
  const sentence = element("p", {class: "figure-sentence", role: "status"});
  const first = button("First", () => go(0), "First step");
  const back = button("Back", () => go(done - 1), "One step back");
  const next = button("Next", () => go(done + 1), "Next step");
  next.classList.add("figure-main");
  const last = button("Last", () => go(Infinity), "Last step");
  const stepper = element(
    "div", {class: "figure-stepper", role: "group", "aria-label": "Steps"},
    element("div", {class: "figure-buttons"}, first, back, next, last), slider, position);

  function go(target) {
    done = Math.max(0, Math.min(target, rmsNorm.stepsOf(problem()).length));
    draw();
    const step = rmsNorm.stateAfter(problem(), done).current;
    if (step === undefined) return;
    const numbers = cells.numbers[step.row];
    if (step.kind === "rstd") {
      reveal(numbers[1], numbers[3]);
      return;
    }
    reveal(numbers[0], numbers[0]);
    for (const row of [cells.x[step.row], cells.y[step.row]]) {
      reveal(row[step.first], row[step.end - 1]);
    }
  }

  /** Scrolls a table in its box, not the page, so that these cells of a row can be seen. */
  function reveal(from, to) {
    const box = from.closest(".figure-scroll");
    const head = from.parentElement.cells[0].offsetWidth;
    const right = to.offsetLeft + to.offsetWidth - box.clientWidth;
    const left = from.offsetLeft - head;
    box.scrollLeft = Math.min(left, Math.max(box.scrollLeft, right));
  }

  // ---- The tables

  const input = scrollBox("x and weight");
  const sums = scrollBox("Each row's sum");
  const output = scrollBox("y");
  let cells;  // of x, of the rows' numbers and of y, each as [row][column]

  /** The blocks' last places may lie beyond the row: the mask leaves them out. */
  function masked() {
    return Math.ceil(shape.columns / block) * block - shape.columns;
  }

  function maskedCells() {
    return Array.from({length: masked()}, () =>
      element("td", {class: "figure-masked"}, element("span", {class: "unseen"}, "masked")));
  }

  /** A field of the matrix or of the weights, and the message that belongs to it. */
  function cell(name, list, c) {
    const box = element("input", {
      type: "text", inputmode: "decimal", autocomplete: "off", size: "1", "aria-label": name,
      value: String(list[c]),
    });
    const message = figures.messageElement();
    box.addEventListener("input", () => {
      const found = readNumber(box.value, -kLargest, kLargest);
      const was = found.complaint ? ` Until then it stays ${list[c]}.` : "";
      figures.complain(box, message, found.complaint && `${name}: ${found.complaint}${was}`);
      if (!found.complaint) {
        list[c] = found.value;
        draw();
      }
    });
    return {box, message};
  }

  function rowHead(text) {
    return element("th", {scope: "row"}, text);
  }

  function columnHeads(list) {
    return element("thead", {}, element(
      "tr", {}, element("td"), ...list.map((text) => element("th", {scope: "col"}, text))));
  }

  /** A row of fields, and below it a row for their messages. */
  function fieldRows(head, list, nameOf) {
    const made = list.slice(0, shape.columns).map((_, c) => cell(nameOf(c), list, c));
    const rows = [
      element(
        "tr", {}, rowHead(head), ...made.map(({box}) => element("td", {}, box)), ...maskedCells()),
      element("tr", {class: "figure-complaints"}, element(
        "td", {colspan: String(1 + shape.columns + masked())},
        element("div", {}, ...made.map(({message}) => message)))),
    ];
    return {rows, tds: made.map(({box}) => box.parentElement)};
  }

  function emptyRow(head, count, end = []) {
    const tds = Array.from({length: count}, () => element("td"));
    return {row: element("tr", {}, rowHead(head), ...tds, ...end), tds};
  }

  function table(caption, heads, rows) {
    return element(
      "table", {}, element("caption", {}, element("span", {}, caption)), columnHeads(heads),
      element("tbody", {}, ...rows));
  }

  /** Builds the tables anew: the shape, or all values, have changed. */
  function reshape() {
    const columns = Array.from({length: shape.columns}, (_, c) => String(c));
    const places = [...columns, ...Array.from({length: masked()}, () => "")];
    const rows = Array.from({length: shape.rows}, (_, r) => r);

    const weight = fieldRows("weight", values.weight, (c) => `weight ${c}`);
    const x = rows.map((r) =>
      fieldRows(`row ${r}`, values.x[r], (c) => `x, row ${r}, column ${c}`));
    input.replaceChildren(table(
      "x and weight", places, [...weight.rows, ...x.flatMap((made) => made.rows)]));

    const numbers = rows.map((r) => emptyRow(`row ${r}`, 5));
    sums.replaceChildren(table(
      "Each row", ["sum of squares", "mean square", "RMS", "rstd", "status"],
      numbers.map(({row}) => row)));
    for (const row of sums.querySelectorAll("tr")) row.lastChild.classList.add("figure-status");

    const y = rows.map((r) => emptyRow(`row ${r}`, shape.columns, maskedCells()));
    output.replaceChildren(table("y", places, y.map(({row}) => row)));

    cells = {
      x: x.map(({tds}) => tds), numbers: numbers.map(({tds}) => tds), y: y.map(({tds}) => tds),
    };
    go(done);
  }

  /** The arrow keys go up and down in x; left and right they stay in the text. */
  input.addEventListener("keydown", (event) => {
    const step = {ArrowUp: -1, ArrowDown: 1, Enter: 1}[event.key];
    if (!step || event.target.tagName !== "INPUT") return;
    const row = event.target.closest("tr");
    const at = [...row.cells].indexOf(event.target.parentElement);
    const all = [...input.querySelectorAll("tbody tr:not(.figure-complaints)")];
    const target = all[all.indexOf(row) + step]?.cells[at].querySelector("input");
    if (target) {
      event.preventDefault();
      target.focus();
      target.select();
    }
  });

  // ---- What changes with each step

  function put(td, text) {
    td.textContent = text === "" ? "\u2013" : text;
    td.classList.toggle("figure-unknown", text === "");
  }

  function number(value, digits) {
    return value === undefined ? "" : show(value, digits);
  }

  function draw() {
    const now = problem();
    const state = rmsNorm.stateAfter(now, done);
    const step = state.current;
    const count = state.steps.length;
    slider.max = String(count);
    slider.value = String(done);
    slider.setAttribute("aria-valuetext", `${done} of ${count}`);
    position.textContent = `step ${done} of ${count}`;
    for (const button of [first, back]) button.setAttribute("aria-disabled", String(done === 0));
    for (const button of [next, last]) button.setAttribute("aria-disabled", String(done === count));
    sentence.textContent = rmsNorm.sentenceFor(now, state);

    for (let r = 0; r < shape.rows; ++r) {
      const isCurrent = step !== undefined && step.row === r;
      for (const group of [cells.x, cells.numbers, cells.y]) {
        group[r][0].parentElement.classList.toggle("figure-current", isCurrent);
      }
      const row = state.rows[r];
      const texts = [
        number(row.sum, 5), number(row.mean, 5), number(row.rms, 4), number(row.rstd, 4),
        row.status,
      ];
      const isNew = (i) =>
        isCurrent && ((step.kind === "sum" && i === 0) || (step.kind === "rstd" && i > 0 && i < 4));
      texts.forEach((text, i) => {
        put(cells.numbers[r][i], text);
        cells.numbers[r][i].classList.toggle("figure-new", isNew(i));
      });
      for (let c = 0; c < shape.columns; ++c) {
        const isIn = isCurrent && c >= step.first && c < step.end;
        cells.x[r][c].classList.toggle("figure-read", isIn);
        put(cells.y[r][c], number(state.y[r][c], 4));
        cells.y[r][c].classList.toggle("figure-written", isIn && step.kind === "write");
      }
      const tail = isCurrent && step.masked > 0;
      for (const group of [cells.x, cells.y]) {
        for (const td of group[r][0].parentElement.querySelectorAll(".figure-masked")) {
          td.classList.toggle("figure-now", tail);
        }
      }
    }
  }

  place.replaceChildren(examples, settings, stepper, sentence, input, sums, output);
  startWithExample();
});
