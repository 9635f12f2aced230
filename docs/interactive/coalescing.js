/**
 * What a warp's load costs: the sectors that it touches in global memory, and its wavefronts
 * through the banks of shared memory.
 *
 * figures.coalescing is the model, without a page; below it is what draws it. The model counts as
 * the CPU device does (common/cpu_device/watch/counter.cpp), and a test compares the two.
 */
"use strict";

figures.coalescing = (function () {
  const kLanes = 32;
  const kBanks = 32;
  const kWordBytes = 4;
  const kSectorBytes = 32;

  /** A permutation of the lanes for each number from 1 on. */
  function permutation(number) {
    const lanes = Array.from({length: kLanes}, (_, lane) => lane);
    let state = number;
    for (let i = kLanes - 1; i > 0; --i) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const j = (state >>> 16) % (i + 1);
      [lanes[i], lanes[j]] = [lanes[j], lanes[i]];
    }
    return lanes;
  }

  /** What the lanes load: the vector, or the float of a row a lane, at which each begins, and that in
   * CUDA. Some have a parameter: what it is called, its largest value and its first. */
  const patterns = {
    neighbours: {text: "neighbours", at: (lane) => lane, index: () => "lane"},
    stride: {
      text: "stride", label: "Stride, in vectors", most: 64, value: 2,
      at: (lane, stride) => lane * stride, index: (stride) => `${stride} * lane`,
    },
    row_a_lane: {
      text: "one row a lane", label: "Columns of a row", most: 1024, value: 32,
      at: (lane, columns) => lane * columns, index: (columns) => `${columns} * lane`,
    },
    same: {text: "the same address", at: () => 0, index: () => "0"},
    repeated: {
      text: "neighbours, repeated", label: "Repeated after", most: 32, value: 8,
      at: (lane, period) => lane % period, index: (period) => `lane % ${period}`,
    },
    shuffled: {
      text: "shuffled", label: "Shuffle number", most: 99, value: 1,
      at: (lane, number) => permutation(number)[lane], index: () => "order[lane]",
    },
  };

  /**
   * The byte at which each lane's load begins.
   *
   * @param access {pattern, parameter, bytes, offset}: bytes a lane, 4, 8 or 16; offset in floats
   */
  function addressesOf({pattern, parameter, bytes, offset}) {
    const size = pattern === "row_a_lane" ? kWordBytes : bytes;
    return Array.from({length: kLanes}, (_, lane) =>
      offset * kWordBytes + size * patterns[pattern].at(lane, parameter));
  }

  /** Whether this address is one that a load of so many bytes may have. */
  function isAligned(address, bytes) {
    return address % bytes === 0;
  }

  /**
   * The sectors of 32 bytes that the warp touches.
   *
   * @returns {sectors, used}: for each sector, in order, {number, words}, and for each of its 8
   *   words the lanes that load it; used is asked bytes / moved bytes
   */
  function globalCost(addresses, bytes) {
    const found = new Map();
    addresses.forEach((address, lane) => {
      const number = Math.floor(address / kSectorBytes);
      if (!found.has(number)) {
        const words = Array.from({length: kSectorBytes / kWordBytes}, () => []);
        found.set(number, {number, words});
      }
      const first = (address % kSectorBytes) / kWordBytes;
      for (let k = 0; k < bytes / kWordBytes; ++k) found.get(number).words[first + k].push(lane);
    });
    const sectors = [...found.values()].sort((a, b) => a.number - b.number);
    return {sectors, used: (addresses.length * bytes) / (kSectorBytes * sectors.length)};
  }

  /** Whether the lanes whose numbers differ in this bit want the same. */
  function pairsAgree(addresses, bit) {
    return addresses.every((address, lane) => address === addresses[lane ^ bit]);
  }

  /**
   * The passes through the 32 banks.
   *
   * A part of the warp goes at a time: all lanes with 4 bytes each, half of them with 8, a quarter
   * with 16; two parts together if neighbours, or the next but one, want the same.
   *
   * @returns {parts, wavefronts, conflicts}: a part is {first, end, passes}, its lanes and for each
   *   pass the 32 banks: {word, lanes} or undefined
   */
  function sharedCost(addresses, bytes) {
    const words = bytes / kWordBytes;
    let lanesAtOnce = kLanes / words;
    if (words > 1 && (pairsAgree(addresses, 1) || pairsAgree(addresses, 2))) lanesAtOnce *= 2;
    const parts = [];
    for (let first = 0; first < kLanes; first += lanesAtOnce) {
      const wanted = Array.from({length: kBanks}, () => []);
      for (let lane = first; lane < first + lanesAtOnce; ++lane) {
        for (let k = 0; k < words; ++k) {
          const word = addresses[lane] / kWordBytes + k;
          const bank = wanted[word % kBanks];
          const served = bank.find((one) => one.word === word);
          if (served) {
            served.lanes.push(lane);
          } else {
            bank.push({word, lanes: [lane]});
          }
        }
      }
      const count = Math.max(...wanted.map((bank) => bank.length));
      const passes = Array.from({length: count}, (_, pass) => wanted.map((bank) => bank[pass]));
      parts.push({first, end: first + lanesAtOnce, passes});
    }
    const wavefronts = parts.reduce((sum, part) => sum + part.passes.length, 0);
    return {parts, wavefronts, conflicts: wavefronts - parts.length};
  }

  /** All of it; without `global` and `shared` if a lane's address is misaligned. */
  function costOf(access) {
    const addresses = addressesOf(access);
    const misaligned = addresses.findIndex((address) => !isAligned(address, access.bytes));
    if (misaligned >= 0) return {addresses, misaligned};
    return {
      addresses,
      global: globalCost(addresses, access.bytes),
      shared: sharedCost(addresses, access.bytes),
    };
  }

  /** A share as the CPU device prints it: halves go to the even number. */
  function percent(share) {
    const exact = 100 * share;
    const below = Math.floor(exact);
    if (exact - below !== 0.5) return `${Math.round(exact)}%`;
    return `${below % 2 === 0 ? below : below + 1}%`;
  }

  /** The load as CUDA has it. */
  function codeOf({pattern, parameter, bytes, offset}) {
    const index = patterns[pattern].index(parameter);
    const shift = offset === 0 ? "" : `${offset} + `;
    if (bytes === 4) return `const float v = x[${shift}${index}];`;
    const type = bytes === 8 ? "float2" : "float4";
    if (pattern === "row_a_lane") {
      return `const ${type} v = *reinterpret_cast<const ${type}*>(x + ${shift}${index});`;
    }
    const from = offset === 0 ? "x" : `x + ${offset}`;
    return `const ${type} v = reinterpret_cast<const ${type}*>(${from})[${index}];`;
  }

  return {kLanes, kBanks, kWordBytes, kSectorBytes, patterns, costOf, isAligned, percent, codeOf};
})();

figures.start("coalescing", function (place) {
  const {element, field, choice, button, readWhole, plural, newId, coalescing} = figures;
  const {kLanes, kBanks, kWordBytes, kSectorBytes, patterns} = coalescing;
  const examples = [
    ["Neighbours", {pattern: "neighbours", bytes: 4, offset: 0}],
    ["float4", {pattern: "neighbours", bytes: 16, offset: 0}],
    ["One float off", {pattern: "neighbours", bytes: 4, offset: 1}],
    ["A row a lane", {pattern: "row_a_lane", parameter: 32, bytes: 4, offset: 0}],
    ["A padded row a lane", {pattern: "row_a_lane", parameter: 33, bytes: 4, offset: 0}],
  ];
  const chosen = {pattern: "neighbours", bytes: 4, offset: 0};
  let followed = 0;

  function access() {
    return {...chosen, parameter: patterns[chosen.pattern].value ?? 0};
  }

  // ---- The settings

  /** A field whose value is chosen[name]. */
  function chosenField(name, label, input, read) {
    return field({
      label, input, read,
      take(value) {
        chosen[name] = value;
        if (name === "pattern") showParameter();
        draw();
      },
    });
  }
  const patternField = chosenField(
    "pattern", "Lanes load",
    choice(Object.entries(patterns).map(([value, {text}]) => [value, text])),
    (text) => ({value: text}));
  const parameterInput = element("input", {type: "number", min: "1", step: "1"});
  const parameterField = field({
    label: "",
    input: parameterInput,
    read: (text) => readWhole(text, 1, patterns[chosen.pattern].most),
    take(value) {
      patterns[chosen.pattern].value = value;
      draw();
    },
  });
  const bytesField = chosenField(
    "bytes", "Bytes a lane",
    choice([["4", "4 (float)"], ["8", "8 (float2)"], ["16", "16 (float4)"]]),
    (text) => ({value: Number(text)}));
  const offsetField = chosenField(
    "offset", "Start, in floats",
    element("input", {type: "number", min: "0", max: "31", step: "1"}),
    (text) => readWhole(text, 0, 31));

  function showParameter() {
    const {label, most, value} = patterns[chosen.pattern];
    parameterField.box.hidden = label === undefined;
    if (label === undefined) return;
    parameterField.name.textContent = label;
    parameterInput.max = String(most);
    parameterField.set(value);
  }

  function set({pattern, parameter, bytes, offset}) {
    Object.assign(chosen, {pattern, bytes, offset});
    if (parameter !== undefined) patterns[pattern].value = parameter;
    patternField.set(pattern);
    bytesField.set(bytes);
    offsetField.set(offset);
    showParameter();
    draw();
  }

  const settings = element(
    "div", {class: "figure-settings", role: "group", "aria-label": "Settings"},
    patternField.box, parameterField.box, bytesField.box, offsetField.box);
  const tries = element(
    "div", {class: "figure-buttons", role: "group", "aria-label": "Examples"},
    ...examples.map(([text, values]) => button(text, () => set(values))));

  // ---- The lanes: radio buttons, so that the arrow keys go from lane to lane

  const code = element("code", {class: "figure-code"});
  const group = newId();
  const lanes = Array.from({length: kLanes}, (_, lane) => {
    const radio = element("input", {type: "radio", name: group, "aria-label": `lane ${lane}`});
    radio.addEventListener("change", () => {
      followed = lane;
      draw();
    });
    const address = element("span", {class: "figure-address"});
    const box = element(
      "label", {class: "figure-lane"}, radio,
      element("span", {"aria-hidden": "true"}, String(lane)), address);
    return {radio, address, box};
  });
  const laneStrip = element(
    "fieldset", {class: "figure-lanes"},
    element("legend", {}, "The 32 lanes, and the byte where each begins. Choose one to follow it."),
    element("div", {}, ...lanes.map(({box}) => box)));
  const laneSentence = element("p", {class: "figure-note", role: "status"});

  // ---- The two memories

  /** A memory's cost, in large and in small letters. */
  function result(name) {
    const count = element("strong");
    const detail = element("span");
    const box = element("div", {}, element("span", {}, name), count, detail);
    return {box, count, detail};
  }
  const globalResult = result("Global memory");
  const sharedResult = result("Shared memory");
  const refusal = element("p", {class: "figure-sentence figure-wrong"});
  const results = element(
    "div", {class: "figure-results", role: "status", "aria-atomic": "true"}, globalResult.box,
    sharedResult.box, refusal);

  const sectorsDrawing = element("div", {class: "figure-sectors", role: "img"});
  const banksDrawing = element("div", {class: "figure-banks", role: "img"});
  const sharing = element(
    "p", {class: "figure-name"}, "\u00d74 stands for 4 lanes that load the same word.");
  const drawings = element(
    "div", {class: "figure-drawings"},
    element("p", {class: "figure-title"}, "Sectors of 32 bytes, and which lane loads which word"),
    sectorsDrawing,
    sharing,
    element("p", {class: "figure-title"}, "Wavefronts through the 32 banks"),
    element(
      "div", {class: "figure-scroll", role: "group", "aria-label": "Banks", tabindex: "0"},
      banksDrawing));
  // A shortcut for the mouse; the lanes above do the same.
  drawings.addEventListener("click", (event) => {
    const lane = event.target.dataset.lane;
    if (lane === undefined) return;
    followed = Number(lane);
    draw();
  });

  /** "5", "0\u20133" or "\u00d77": the lanes that load a word, in little space. */
  function lanesText(list) {
    if (list.length === 1) return String(list[0]);
    const isRow = list[list.length - 1] - list[0] === list.length - 1;
    return isRow && list.length < 10 && list[list.length - 1] < 10
      ? `${list[0]}\u2013${list[list.length - 1]}` : `\u00d7${list.length}`;
  }

  /** A word of memory with the lanes that load it; every second lane has a darker tint. */
  function wordCell(list) {
    if (list.length === 0) return element("span", {class: "figure-word"});
    const kind = list.includes(followed)
      ? " figure-followed" : list[0] % 2 === 1 ? " figure-odd" : "";
    return element(
      "span", {class: `figure-word figure-taken${kind}`, "data-lane": list[0]}, lanesText(list));
  }

  function drawSectors({sectors, used}, bytes) {
    globalResult.count.textContent = plural(sectors.length, "sector");
    globalResult.detail.textContent = `${coalescing.percent(used)} used: ` +
      `${kLanes * bytes} bytes asked for, ${kSectorBytes * sectors.length} moved`;
    sectorsDrawing.replaceChildren(...sectors.map(({number, words}) => element(
      "div", {class: "figure-sector"},
      element("span", {class: "figure-name"}, `sector ${number}`),
      element("span", {class: "figure-words"}, ...words.map(wordCell)))));
    sharing.hidden = !sectorsDrawing.textContent.includes("\u00d7");
    sectorsDrawing.setAttribute(
      "aria-label", `${plural(sectors.length, "sector")}, from number ${sectors[0].number} to ` +
      `number ${sectors[sectors.length - 1].number}; in each, the words that lanes load.`);
  }

  function drawBanks({parts, wavefronts, conflicts}) {
    sharedResult.count.textContent = plural(wavefronts, "wavefront");
    sharedResult.detail.textContent =
      conflicts === 0 ? "no bank conflicts" : `${conflicts} of them by bank conflicts`;
    const row = (name, kids) => element(
      "div", {class: "figure-bank-row"}, element("span", {class: "figure-name"}, name), ...kids);
    const rows = [
      row("bank", Array.from({length: kBanks}, (_, bank) =>
        element("span", {class: "figure-bank"}, String(bank)))),
    ];
    let wavefront = 0;
    for (const {first, end, passes} of parts) {
      if (parts.length > 1) rows.push(row(`lanes ${first}\u2013${end - 1}`, []));
      for (const banks of passes) {
        rows.push(row(
          `wavefront ${++wavefront}`, banks.map((bank) => wordCell(bank ? bank.lanes : []))));
      }
    }
    banksDrawing.replaceChildren(...rows);
    banksDrawing.setAttribute(
      "aria-label", `A row for each of ${plural(wavefronts, "wavefront")}, a column for each of ` +
      "32 banks; in each place, the lane that is served.");
  }

  /** Where the followed lane's bytes lie and when they come. */
  function sentenceForLane(cost, bytes) {
    const address = cost.addresses[followed];
    const where = `Lane ${followed}: bytes ${address} to ${address + bytes - 1}`;
    if (!cost.shared) {
      const is = coalescing.isAligned(address, bytes) ? "a" : "no";
      return `${where}; ${address} is ${is} multiple of ${bytes}.`;
    }
    const bank = (address / kWordBytes) % kBanks;
    const lastBank = bank + bytes / kWordBytes - 1;
    const banks = bank === lastBank ? `bank ${bank}` : `banks ${bank} to ${lastBank}`;
    const passes = cost.shared.parts.flatMap((part) => part.passes);
    const served = passes
      .map((pass, i) => (pass.some((one) => one?.lanes.includes(followed)) ? i + 1 : 0))
      .filter((number) => number > 0);
    const when = served.length === 1
      ? `wavefront ${served[0]}` : `wavefronts ${served.join(", ")}`;
    return `${where}: sector ${Math.floor(address / kSectorBytes)}; ${banks}, ${when}.`;
  }

  function draw() {
    const now = access();
    const cost = coalescing.costOf(now);
    code.textContent = coalescing.codeOf(now);
    lanes.forEach(({radio, address, box}, lane) => {
      const isBad = !coalescing.isAligned(cost.addresses[lane], now.bytes);
      address.textContent = (isBad ? "!" : "") + cost.addresses[lane];
      radio.checked = lane === followed;
      box.classList.toggle("figure-bad", isBad);
      box.classList.toggle("figure-followed", lane === followed);
    });
    laneSentence.textContent = sentenceForLane(cost, now.bytes);
    const isMisaligned = cost.misaligned !== undefined;
    for (const part of [globalResult.box, sharedResult.box, drawings]) part.hidden = isMisaligned;
    refusal.hidden = !isMisaligned;
    if (isMisaligned) {
      refusal.textContent = `Lane ${cost.misaligned} would load ${now.bytes} bytes from byte ` +
        `${cost.addresses[cost.misaligned]}, which is no multiple of ${now.bytes}. ` +
        "A GPU stops the kernel there, and the CPU device reports it.";
      return;
    }
    drawSectors(cost.global, now.bytes);
    drawBanks(cost.shared);
  }

  place.replaceChildren(tries, settings, code, results, laneStrip, laneSentence, drawings);
  set(examples[0][1]);
});
