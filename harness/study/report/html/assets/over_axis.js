// Panels by the values of axes, and the costs over one of them instead of over n.

const COSTS = ["time", "compared", "memory", "depth"];

// The panel at a value on each axis; null if there is none. Layers with different options stand beside each other: a
// panel whose layers do not have an option, with null for its value, belongs to each of its values.
function panelAt(at, panels) {
  const [first, ...others] = panels.filter((panel) => Object.keys(panel.at).every((name) => [null, at[name]].includes(panel.at[name])));
  return first ? others.reduce(together, first) : null;
}

function together(one, other) {
  const both = (name, join) => (one[name] && other[name] ? join(one[name], other[name]) : one[name] ?? other[name]);
  const curves = (a, b) => [...a, ...b.filter((curve) => !a.some((known) => known.impl === curve.impl))];
  const chart = (a, b) => ({ ...a, x: wider(a.x, b.x), y: wider(a.y, b.y), curves: curves(a.curves, b.curves), failed: curves(a.failed, b.failed) });
  return {
    ...one, words: [...new Set([...one.words, ...other.words])],
    ...Object.fromEntries([...COSTS, "roofline"].map((name) => [name, both(name, chart)])),
    accuracy: null, // its front is of one panel alone
    crossovers: both("crossovers", (a, b) => ({ ...a, rows: [...a.rows, ...b.rows] })),
  };
}

// An axis with room for both.
function wider(a, b) {
  const ticks = [...a.ticks, ...b.ticks.filter(([value]) => !a.ticks.some(([known]) => known === value))];
  return { ...a, range: [Math.min(a.range[0], b.range[0]), Math.max(a.range[1], b.range[1])], ticks: ticks.sort((x, y) => x[0] - y[0]) };
}

// A panel whose costs are over this axis, with the cases of one n, to be drawn like any other; null if there is none.
function panelOver(axis, n, panels, at) {
  const every = axis.values.map((value) => ({ x: Number(value), panel: panelAt({ ...at, [axis.name]: value }, panels) }));
  const placed = every.filter(({ x, panel }) => x > 0 && panel);
  if (!placed.length) return null;
  const own = `${axis.name.replace("layer.", "")}=`, { sizes, words } = placed[0].panel;
  return {
    sizes: `n = ${n}, ${sizes}`, words: words.filter((word) => !word.startsWith(own)),
    ...Object.fromEntries(COSTS.map((metric) => [metric, costOver(axis, placed, metric, n)])),
    roofline: null, accuracy: null, crossovers: null,
  };
}

function costOver(axis, placed, metric, n) {
  const known = placed.filter(({ panel }) => panel[metric]);
  const curves = {}, failed = [];
  for (const { panel, x } of known) {
    const at = (cases) => cases.filter((one) => one.x === n).map((one) => ({ ...one, x }));
    for (const { impl, points } of panel[metric].curves) (curves[impl] ??= { impl, points: [] }).points.push(...at(points));
    failed.push(...at(panel[metric].failed));
  }
  const drawn = Object.values(curves).filter((one) => one.points.length);
  return known.length ? { ...known[0].panel[metric], x: axis.frame, curves: drawn, failed } : null;
}

// The n of some case, in ascending order.
function everyN(panels) {
  const costs = panels.flatMap((panel) => [panel.time, panel.memory, panel.depth]).filter(Boolean);
  const cases = costs.flatMap((cost) => [...cost.curves.flatMap((one) => one.points), ...cost.failed]);
  return [...new Set(cases.map(({ x }) => x))].sort((a, b) => a - b);
}
