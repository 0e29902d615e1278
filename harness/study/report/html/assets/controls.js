// The bar that chooses: which impls, and which of the panels.

const NS = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Each of Plotly's symbols as an SVG path within a circle of radius 5.
const SYMBOL_PATHS = {
  "circle": "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z",
  "square": "M-4.4-4.4H4.4V4.4H-4.4Z",
  "diamond": "M0-5.6L5.6 0L0 5.6L-5.6 0Z",
  "triangle-up": "M0-5.4L5.2 3.9H-5.2Z",
  "triangle-down": "M0 5.4L5.2-3.9H-5.2Z",
  "cross": "M-1.9-5.2H1.9V-1.9H5.2V1.9H1.9V5.2H-1.9V1.9H-5.2V-1.9H-1.9Z",
  "star": "M0-5.8L1.4-1.9L5.5-1.8L2.2.8L3.4 4.7L0 2.3L-3.4 4.7L-2.2.8L-5.5-1.8L-1.4-1.9Z",
  "x": "M0-2.6L2.6-5.2L5.2-2.6L2.6 0L5.2 2.6L2.6 5.2L0 2.6L-2.6 5.2L-5.2 2.6L-2.6 0L-5.2-2.6L-2.6-5.2Z",
  "pentagon": "M0-5.4L5.1-1.7L3.2 4.4H-3.2L-5.1-1.7Z",
  "hexagon": "M0-5.4L4.7-2.7V2.7L0 5.4L-4.7 2.7V-2.7Z",
};

function mark(look) {
  const svg = document.createElementNS(NS, "svg");
  for (const [name, value] of Object.entries({ viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" })) {
    svg.setAttribute(name, value);
  }
  const path = document.createElementNS(NS, "path");
  path.setAttribute("d", SYMBOL_PATHS[look.symbol]);
  path.setAttribute("fill", look.colour);
  svg.append(path);
  return svg;
}

// Of many layers all can be chosen or none, to go on from there.
function implChips(looks, onChange) {
  const set = element("fieldset", { class: "impls" }, element("legend", { class: "sr" }, "layers"));
  const names = Object.keys(looks);
  for (const [what, on] of names.length > MANY ? [["all", true], ["none", false]] : []) {
    const button = element("button", { type: "button", id: `choose-${what}` }, what);
    button.addEventListener("click", () => {
      set.querySelectorAll("input").forEach((box) => { box.checked = on; });
      onChange(names, on);
    });
    set.append(button);
  }
  for (const [impl, look] of Object.entries(looks)) {
    const box = element("input", { type: "checkbox", value: impl });
    box.checked = true;
    box.addEventListener("change", () => onChange([impl], box.checked));
    set.append(element("label", {}, box, mark(look), element("span", {}, impl)));
  }
  return set;
}

// One of few values is a button each, one of many a list. An axis with one value is nothing to choose.
function axisChoice(axis, onChange) {
  const set = element("fieldset", { class: "axis" }, element("legend", {}, axis.label));
  if (axis.values.length > 6) {
    const list = element("select", { name: axis.name, "aria-label": axis.label });
    for (const value of axis.values) list.append(element("option", { value }, String(value)));
    list.addEventListener("change", () => onChange(axis.name, axis.values[list.selectedIndex]));
    set.append(list);
    return set;
  }
  for (const value of axis.values) {
    const button = element("input", { type: "radio", name: axis.name, value });
    button.addEventListener("change", () => onChange(axis.name, value));
    set.append(element("label", {}, button, String(value)));
  }
  return set;
}

function showChoice(axes, at) {
  for (const axis of axes) {
    const list = document.querySelector(`#filters select[name="${axis.name}"]`);
    if (list) list.selectedIndex = axis.values.indexOf(at[axis.name]);
    document.querySelectorAll(`#filters input[name="${axis.name}"]`).forEach((button) => {
      button.checked = button.value === String(at[axis.name]);
    });
  }
}

function fillSelect(select, values, chosen) {
  select.replaceChildren(...values.map((value) => element("option", { value }, value)));
  select.value = chosen;
}
