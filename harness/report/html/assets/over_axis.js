// The costs over an option or own axis, such as a window: of all panels that differ along it alone, the cases of one n.

// A panel whose `n` is the axis with these values, to be drawn like any other.
function panelOver(axis, n, panels, axes, at) {
  const alike = panels.filter((panel) => axes.every((other) => other === axis || panel.at[other.name] === at[other.name]));
  const placed = alike.map((panel) => ({ panel, x: Number(panel.at[axis.name]) })).filter(({ x }) => x > 0).sort((a, b) => a.x - b.x);
  const [first] = alike, own = `${axis.name.replace("layer.", "")}=${first.at[axis.name]}`;
  const [where, setting] = first.title.split("; "), words = setting.split(", ").filter((word) => word !== own);
  return {
    at, title: `n = ${n}, ${where}; ${words.join(", ")}`, n: axis.frame, roofline: null, accuracy: null, crossovers: null,
    ...Object.fromEntries(["time", "memory", "depth"].map((metric) => [metric, costOver(placed, metric, n)])),
  };
}

function costOver(placed, metric, n) {
  const known = placed.filter(({ panel }) => panel[metric]);
  const curves = {}, failed = [];
  for (const { panel, x } of known) {
    for (const one of panel[metric].curves.filter((curve) => curve.n.includes(n))) {
      const i = one.n.indexOf(n), to = (curves[one.impl] ??= { impl: one.impl, n: [], value: [], lo: [], hi: [], text: [] });
      to.n.push(x);
      for (const column of ["value", "lo", "hi", "text"]) to[column].push(one[column][i]);
    }
    failed.push(...panel[metric].failed.filter((one) => one.n === n).map((one) => ({ ...one, n: x })));
  }
  return known.length ? { y: known[0].panel[metric].y, curves: Object.values(curves), failed } : null;
}

// The n of some case, in ascending order.
function everyN(panels) {
  const costs = panels.flatMap((panel) => [panel.time, panel.memory, panel.depth]).filter(Boolean);
  return [...new Set(costs.flatMap((cost) => [...cost.curves.flatMap((one) => one.n), ...cost.failed.map((one) => one.n)]))].sort((a, b) => a - b);
}
