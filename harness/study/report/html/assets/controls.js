// The bar that chooses: which impls, and which of the panels.

const NS = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function mark(look) {
  const svg = document.createElementNS(NS, "svg");
  for (const [name, value] of Object.entries({ viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" })) {
    svg.setAttribute(name, value);
  }
  const symbol = document.createElementNS(NS, "use");
  symbol.setAttribute("href", `#symbol-${look.symbol}`);
  symbol.setAttribute("fill", look.colour);
  svg.append(symbol);
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
