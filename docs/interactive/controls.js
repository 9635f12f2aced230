/**
 * What the interactive figures share: elements, fields that explain bad input, numbers as text.
 *
 * Plain scripts, since modules do not load from file://. A page with two figures loads this one
 * twice: the second time adds to the same object.
 */
"use strict";

var figures = window.figures || {};

/** An element with attributes and children. An attribute that is undefined is left out. */
figures.element = function (name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

/** A new id for the page. */
figures.newId = function () {
  figures.lastId = (figures.lastId || 0) + 1;
  return `figure-part-${figures.lastId}`;
};

/** Calls build(place) for each <div data-figure="name"> above. */
figures.start = function (name, build) {
  for (const place of document.querySelectorAll(`[data-figure="${name}"]`)) build(place);
};

// Readers of text: {value}, or {complaint}, a sentence that says what to write instead.

/** A whole number from least to most. */
figures.readWhole = function (text, least, most) {
  const value = Number(text);
  if (text.trim() !== "" && Number.isInteger(value) && value >= least && value <= most) {
    return {value};
  }
  return {complaint: `Write a whole number from ${least} to ${most}.`};
};

/** Marks a field as wrong, or as right again. `message` is an element that holds the sentence. */
figures.complain = function (input, message, complaint) {
  message.textContent = complaint || "";
  message.hidden = !complaint;
  if (complaint) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", message.id);
  } else {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
};

/** An element for the sentence about a field. It is read out when it appears. */
figures.messageElement = function () {
  const {element, newId} = figures;
  return element("p", {class: "figure-complaint", id: newId(), role: "alert", hidden: ""});
};

/**
 * A labelled field. While its text is wrong, the sentence stands below it, and nothing is taken.
 *
 * @param label  what stands above it
 * @param input  an <input>, whose text goes through read, or a <select>
 * @param read   text -> {value} or {complaint}
 * @param take   is called with each good value
 * @returns {box, set}: the element, and a function that puts a value in without calling take
 */
figures.field = function ({label, input, read, take}) {
  const {element, newId, complain, messageElement} = figures;
  const message = messageElement();
  input.id = newId();
  const name = element("label", {for: input.id}, label);
  input.addEventListener("input", () => {
    const found = read(input.value);
    complain(input, message, found.complaint);
    if (!found.complaint) take(found.value);
  });
  return {
    box: element("div", {class: "figure-field"}, name, input, message),
    name,
    set(value) {
      input.value = value;
      complain(input, message, "");
    },
  };
};

/** A <select> of [value, text]. */
figures.choice = function (options) {
  const {element} = figures;
  return element("select", {}, ...options.map(([value, text]) => element("option", {value}, text)));
};

/** A button. One that can do nothing now is marked, and keeps the focus that it has. */
figures.button = function (text, press, name) {
  const made = figures.element("button", {type: "button", "aria-label": name}, text);
  made.addEventListener("click", () => {
    if (made.getAttribute("aria-disabled") !== "true") press();
  });
  return made;
};

/** A wide thing in a box of its own, which scrolls, and can be scrolled with the keyboard. */
figures.scrollBox = function (name, ...children) {
  return figures.element(
    "div", {class: "figure-scroll", role: "group", "aria-label": name, tabindex: "0"}, ...children);
};

/** A number as text: up to `digits` digits behind the point, or a power of ten if that is short. */
figures.show = function (value, digits) {
  if (Number.isNaN(value)) return "NaN";
  const sign = value < 0 ? "\u2212" : "";
  const size = Math.abs(value);
  if (size === Infinity) return `${sign}\u221e`;
  if (size !== 0 && (size < 10 ** (1 - digits) || size >= 1e6)) {
    return sign + size.toExponential(3).replace("e+", "e").replace("e-", "e\u2212");
  }
  const rounded = size.toFixed(digits).replace(/\.?0+$/, "");
  return (rounded === "0" ? "" : sign) + rounded;
};

/** "1 sector", "2 sectors". */
figures.plural = function (count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
};
