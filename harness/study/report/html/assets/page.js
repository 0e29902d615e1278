// What is chosen, and drawing it.

const BASELINE = "attention.naive";
const data = JSON.parse(document.getElementById("data").textContent);
const sizes = everyN(data.panels);
const largest = Object.fromEntries(data.axes.map((axis) => [axis.name, axis.values.at(-1)]));
// `over` is the axis that the costs are drawn over, at this `n`; null: over n.
const chosen = {
  at: completed(data.panels[data.first]?.at ?? {}, largest), hidden: new Set(), baseline: BASELINE, metric: "time", over: null, n: sizes.at(-1),
};

// The values of a panel, with those of `others` where it belongs to every value.
function completed(at, others) {
  return { ...others, ...Object.fromEntries(Object.entries(at).filter(([, value]) => value !== null)) };
}

// This value on this axis; if there is no such panel, the one with it that is most like the present one.
function choose(name, value) {
  const at = { ...chosen.at, [name]: value };
  const alike = (panel) => data.axes.filter((axis) => [null, at[axis.name]].includes(panel.at[axis.name])).length;
  const possible = data.panels.filter((panel) => panel.at[name] === value);
  chosen.at = panelAt(at, possible) ? at : completed(possible.reduce((best, panel) => (alike(panel) > alike(best) ? panel : best)).at, at);
  redraw();
}

// The looks of what some panel shows: a layer that cannot be measured here is nothing to choose.
function drawable() {
  const costs = data.panels.flatMap((panel) => [panel.time, panel.memory, panel.depth]).filter(Boolean);
  const seen = new Set(costs.flatMap((cost) => [...cost.curves, ...cost.failed]).map((one) => one.impl));
  return Object.fromEntries(Object.entries(data.looks).filter(([impl]) => seen.has(impl)));
}

function redraw() {
  const { n } = chosen;
  const panelOfAxis = chosen.over && panelOver(chosen.over, n, data.panels, chosen.at);
  const over = panelOfAxis ? chosen.over : null; // no size of it was measured beside the other choices
  const panel = panelOfAxis ?? panelAt(chosen.at, data.panels);
  const none = Object.keys(drawable()).every((impl) => chosen.hidden.has(impl));
  document.getElementById("none").hidden = !none;
  document.querySelector("#charts .figures").hidden = none;
  if (none) return;
  const shown = (impl) => !chosen.hidden.has(impl);
  showChoice(data.axes, chosen.at);
  showOver(over, n);
  document.getElementById("selection").textContent = `${panel.sizes}; ${panel.words.join(", ")}`;
  const timed = inOrder(panel.compared?.curves ?? [], data.looks).map((one) => one.impl);
  if (!timed.includes(chosen.baseline)) chosen.baseline = timed.includes(BASELINE) ? BASELINE : timed[0];
  fillSelect(document.getElementById("baseline"), timed, chosen.baseline);
  draw("chart-time", curvesFigure(panel.time, data.looks, shown));
  draw("chart-memory", curvesFigure(panel.memory, data.looks, shown));
  draw("chart-depth", curvesFigure(panel.depth, data.looks, shown, [1]));
  draw("chart-speedup", timed.length > 1 ? speedupFigure(panel, data.looks, shown, chosen.baseline) : null);
  draw("chart-accuracy", pointsFigure(panel.accuracy, data.looks, shown));
  draw("chart-roofline", pointsFigure(panel.roofline, data.looks, shown));
  draw("chart-crossovers", crossoversFigure(panel, data.looks, shown, chosen.metric));
  document.getElementById("undecided").textContent = undecidedPairs(panel, shown, chosen.metric);
  document.getElementById("chart-crossovers").hidden = !panel.crossovers;
  document.getElementById("chart-accuracy").hidden = !panel.accuracy;
}

// With something to draw over beside n, a choice of it, and one of n, which takes the place of what is drawn over.
const OVER = { name: "over", label: "draw over", values: ["n"] };
const SIZE = { name: "n", label: "sequence length n", values: sizes };

function overChoices() {
  const possible = data.axes.filter((axis) => axis.frame);
  if (!possible.length) return [];
  const over = { ...OVER, values: [...OVER.values, ...possible.map((axis) => axis.label)] };
  return [
    axisChoice(over, (_, label) => { chosen.over = possible.find((axis) => axis.label === label) ?? null; redraw(); }),
    axisChoice(SIZE, (_, n) => { chosen.n = n; redraw(); }),
  ];
}

function showOver(over, n) {
  showChoice([OVER, SIZE], { over: over?.label ?? "n", n });
  for (const axis of [SIZE, ...data.axes]) {
    const control = document.querySelector(`#filters [name="${axis.name}"]`);
    if (control) control.closest("fieldset").hidden = axis === SIZE ? !over : axis === over;
  }
}

// Whether an axis says nothing beside another: if just the batches of unequal lengths are padded, so is their mask.
const follows = (axis) =>
  axis.name === "mask" && data.panels.every(({ at }) => (at.mask === "padding") === (at.lengths !== "equal"));

function start() {
  const filters = document.getElementById("filters");
  filters.append(implChips(drawable(), (impls, on) => {
    for (const impl of impls) {
      if (on) chosen.hidden.delete(impl);
      else chosen.hidden.add(impl);
    }
    redraw();
  }));
  for (const axis of data.axes) if (axis.values.length > 1 && !follows(axis)) filters.append(axisChoice(axis, choose));
  filters.append(...overChoices());
  const baseline = document.getElementById("baseline"), metric = document.getElementById("metric");
  baseline.addEventListener("change", () => { chosen.baseline = baseline.value; redraw(); });
  fillSelect(metric, ["time", "memory"], chosen.metric);
  metric.addEventListener("change", () => { chosen.metric = metric.value; redraw(); });
  NARROW.addEventListener("change", () => { redraw(); drawOverview(data); drawPredictions(data); });
  redraw();
}

drawOverview(data);
if (document.getElementById("filters")) start();
drawPredictions(data);
