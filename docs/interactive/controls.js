/**
 * What the interactive figures share: elements, fields that explain bad input, numbers as text.
 * Plain scripts, since modules do not load from file://.
 */
"use strict";

const figures = {};

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
  figures.lastId = (figures.lastId ?? 0) + 1;
  return `figure-part-${figures.lastId}`;
};

/** Calls build(place) for the <div data-figure="name"> above. */
figures.start = function (name, build) {
  build(document.querySelector(`[data-figure="${name}"]`));
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
  const {element, newId} = figures;
  const message = element("p", {class: "figure-complaint", id: newId(), role: "alert", hidden: ""});
  input.id = newId();
  function complain(complaint) {
    message.textContent = complaint ?? "";
    message.hidden = !complaint;
    for (const [key, value] of [["aria-invalid", "true"], ["aria-describedby", message.id]]) {
      if (complaint) input.setAttribute(key, value);
      else input.removeAttribute(key);
    }
  }
  const name = element("label", {for: input.id}, label);
  input.addEventListener("input", () => {
    const found = read(input.value);
    complain(found.complaint);
    if (!found.complaint) take(found.value);
  });
  return {
    box: element("div", {class: "figure-field"}, name, input, message),
    name,
    set(value) {
      input.value = value;
      complain();
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

/** A number as text: up to `digits` digits behind the point. */
figures.show = function (value, digits) {
  return value.toFixed(digits).replace(/\.?0+$/, "").replace("-", "\u2212");
};

/** "1 sector", "2 sectors". */
figures.plural = function (count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
};
