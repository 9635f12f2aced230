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
    const {kind, row, first, end} = step;
    const rowOf = (box) => box.querySelector("tbody").rows[row];
    if (kind === "rstd") {
      reveal(rowOf(sums), 1, 3);
      return;
    }
    reveal(rowOf(sums), 0, 0);
    for (const tr of [xRows[row], rowOf(output)]) reveal(tr, first, end - 1);
  }

  /** Scrolls a table in its box, not the page, so that these columns of a row can be seen. */
  function reveal(row, first, last) {
    const box = row.closest(".figure-scroll");
    const [head, from, to] = [0, first + 1, last + 1].map((column) => row.cells[column]);
    const right = to.offsetLeft + to.offsetWidth - box.clientWidth;
    const left = from.offsetLeft - head.offsetWidth;
    box.scrollLeft = Math.min(left, Math.max(box.scrollLeft, right));
  }

  // ---- The tables

  const input = scrollBox("x and weight");
  const sums = scrollBox("Each row's sum");
  const output = scrollBox("y");
  let xRows;  // the <tr> of each row of x

  /** The blocks' last places may lie beyond the row: the mask leaves them out. */
  function masked() {
    return Math.ceil(shape.columns / block) * block - shape.columns;
  }

  function maskedCells(areNow) {
    return Array.from({length: masked()}, () => element(
      "td", {class: `figure-masked${areNow ? " figure-now" : ""}`},
      element("span", {class: "unseen"}, "masked")));
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

  function tableRow(head, cells, isCurrent) {
    return element(
      "tr", {class: isCurrent ? "figure-current" : undefined},
      element("th", {scope: "row"}, head), ...cells);
  }

  /** A row of fields, and below it a row for their messages. */
  function fieldRows(head, list, nameOf) {
    const made = list.slice(0, shape.columns).map((_, c) => cell(nameOf(c), list, c));
    return [
      tableRow(head, [...made.map(({box}) => element("td", {}, box)), ...maskedCells()]),
      element("tr", {class: "figure-complaints"}, element(
        "td", {colspan: String(1 + shape.columns + masked())},
        element("div", {}, ...made.map(({message}) => message)))),
    ];
  }

  function table(caption, heads, rows) {
    return element(
      "table", {}, element("caption", {}, element("span", {}, caption)),
      element("thead", {}, element(
        "tr", {}, element("td"), ...heads.map((text) => element("th", {scope: "col"}, text)))),
      element("tbody", {}, ...rows));
  }

  /** The heads of the columns of x and y. */
  function places() {
    return Array.from({length: shape.columns + masked()}, (_, c) =>
      (c < shape.columns ? String(c) : ""));
  }

  /** Builds the fields anew: the shape, or all values, have changed. */
  function reshape() {
    const x = values.x.slice(0, shape.rows).map((list, r) =>
      fieldRows(`row ${r}`, list, (c) => `x, row ${r}, column ${c}`));
    const weight = fieldRows("weight", values.weight, (c) => `weight ${c}`);
    input.replaceChildren(table("x and weight", places(), [...weight, ...x.flat()]));
    xRows = x.map(([row]) => row);
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

  /** A cell with a number, or with a dash where it is not known yet. */
  function numberCell(value, digits, mark) {
    if (value === undefined) return element("td", {class: "figure-unknown"}, "\u2013");
    return element("td", {class: mark}, show(value, digits));
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

    const isCurrent = (r) => step?.row === r;
    const isIn = (r, c) => isCurrent(r) && c >= step.first && c < step.end;
    const isMaskedNow = (r) => isCurrent(r) && step.masked > 0;
    xRows.forEach((row, r) => {
      row.classList.toggle("figure-current", isCurrent(r));
      [...row.cells].slice(1).forEach((td, c) => {
        td.classList.toggle("figure-read", isIn(r, c));
        td.classList.toggle("figure-now", isMaskedNow(r));
      });
    });
    sums.replaceChildren(table(
      "Each row", ["sum of squares", "mean square", "RMS", "rstd", "status"],
      state.rows.map(({sum, mean, rms, rstd, status}, r) => {
        const mark = (kind) => (isCurrent(r) && step.kind === kind ? "figure-new" : undefined);
        return tableRow(`row ${r}`, [
          numberCell(sum, 5, mark("sum")), numberCell(mean, 5, mark("rstd")),
          numberCell(rms, 4, mark("rstd")), numberCell(rstd, 4, mark("rstd")),
          element("td", {}, status),
        ], isCurrent(r));
      })));
    for (const row of sums.querySelectorAll("tr")) row.lastChild.classList.add("figure-status");
    output.replaceChildren(table("y", places(), state.y.map((row, r) => {
      const mark = (c) => (isIn(r, c) && step.kind === "write" ? "figure-written" : undefined);
      const cells = row.map((value, c) => numberCell(value, 4, mark(c)));
      return tableRow(`row ${r}`, [...cells, ...maskedCells(isMaskedNow(r))], isCurrent(r));
    })));
  }

  place.replaceChildren(examples, settings, stepper, sentence, input, sums, output);
  startWithExample();
});
