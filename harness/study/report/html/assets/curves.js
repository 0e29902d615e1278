// Time, memory and sequential depth against n, or over an own axis.

function curvesFigure(cost, looks, shown, powers = [1, 2]) {
  if (!cost) return null;
  const traces = [];
  const visible = inOrder(cost.curves, looks).filter((one) => shown(one.impl));
  const turn = turns(visible, cost.y);
  for (const one of visible) {
    const hover = one.points.map(({ text }) => named(one.impl, plain(text)));
    traces.push(...measured(one, looks[one.impl], hover, cost.y, { bare: crowded(visible), turn: turn[one.impl] }));
  }
  const lines = cost.x.ticks.length > 1 && visible.length ? powers.map((power) => guide(visible, cost, power)) : [];
  traces.push(...lines.map(guideTrace));
  const failed = failures(cost, looks, shown);
  traces.push(...failed);
  const words = failed.filter((one) => one.text[0]).map((one) => wordsBelow(one.x[0], one.y[0], cost.y));
  const annotations = lines.map((line) => guideLabel(line, [...visible, ...lines, ...words].filter((one) => one !== line), cost.y));
  return { traces, layout: layout(axisOfN(cost.x), axis(cost.y), { annotations, ...uncrowded(visible) }) };
}

// Failed cases, each where it would have been; at the top where nobody knows.
function failures(cost, looks, shown) {
  const top = cost.y.range[1] / 1.2, last = cost.x.ticks.at(-1)[0];
  const failed = cost.failed.filter((one) => shown(one.impl)).map((one) => ({ ...one, y: Math.min(one.y ?? top, top) }));
  const texts = failureTexts(failed, cost.y);
  return failed.map((one, i) => ({
    type: "scatter", mode: "markers+text", meta: { impl: one.impl, kind: "failed" }, showlegend: false, cliponaxis: false,
    x: [one.x], y: [one.y], text: [texts[i] && `<br>${plain(texts[i])}`], textposition: one.x === last ? "bottom left" : "bottom center", textfont: { size: 11 },
    marker: { symbol: "x-thin", size: 10, color: looks[one.impl].colour, line: { width: 2.5, color: looks[one.impl].colour } },
    customdata: [named(one.impl, lines(one.text))], hovertemplate: "%{customdata}<extra></extra>",
  }));
}

// The place of the words below a cross, as a short level curve.
function wordsBelow(x, value, { range }) {
  const y = value / (range[1] / range[0]) ** FREE;
  return { points: [{ x: x / 1.6, y }, { x: x * 1.6, y }] };
}

// Statuses of those that lie together are told once, by the lowest, and not again where they go on at the next n.
const NEAR = 0.08; // of the height
function failureTexts(failed, y) {
  const height = (one) => (log(one.y) - log(y.range[0])) / (log(y.range[1]) - log(y.range[0]));
  const order = failed.map((_, i) => i).sort((a, b) => failed[a].x - failed[b].x || height(failed[a]) - height(failed[b]));
  const groups = [];
  for (const i of order) {
    const last = groups.at(-1)?.at(-1);
    if (last !== undefined && failed[last].x === failed[i].x && height(failed[i]) - height(failed[last]) < NEAR) groups.at(-1).push(i);
    else groups.push([i]);
  }
  const texts = failed.map(() => "");
  const bySize = new Map();
  for (const group of groups) {
    const { x } = failed[group[0]], text = [...new Set(group.map((i) => failed[i].status))].join(", ");
    const before = [...bySize.keys()].filter((other) => other < x).at(-1);
    if (before === undefined || !bySize.get(before).has(text)) texts[group[0]] = text;
    bySize.set(x, (bySize.get(x) ?? new Set()).add(text));
  }
  return texts;
}

// A power of n, back from above the highest cost at the largest n: a curve that grows so lies on a line through its end.
const ABOVE = 1.3;
function guide(curves, { x, y }, power) {
  const last = curves.map((one) => one.points.at(-1)).sort((a, b) => a.x - b.x || a.y - b.y).at(-1);
  const most = ABOVE * last.y, first = Math.max(x.range[0], last.x * (y.range[0] / most) ** (1 / power));
  const points = [{ x: first, y: most * (first / last.x) ** power }, { x: last.x, y: most }];
  return { points, power, text: `∝ ${letterOf(x)}${power === 1 ? "" : "²"}` };
}

const guideTrace = (line) => ({
  type: "scatter", mode: "lines", x: line.points.map(({ x }) => x), y: line.points.map(({ y }) => y), meta: { kind: "guide" }, hoverinfo: "skip", showlegend: false,
  line: { color: GREY, width: 1, dash: line.power === 1 ? "6px,4px" : "2px,3px" },
});

// The label above or below its line, where other curves leave it free, in shares of the frame's height: if none of
// these places is free enough, where the nearest curve is farthest.
const FREE = 0.065, ASIDE = [0.045, -0.045, 0.09, -0.09, 0.14, -0.14];
function guideLabel(line, curves, y) {
  const height = (value) => (log(value) - log(y.range[0])) / (log(y.range[1]) - log(y.range[0]));
  const [first, last] = line.points;
  let best = { free: -1 };
  for (const side of ASIDE) {
    for (let share = 0.06; share < 0.95; share += 0.04) {
      const n = first.x * (last.x / first.x) ** share;
      const at = height(valueAt(line, n)) + side;
      const around = curves.flatMap((one) => [n / 1.2, n, n * 1.2].map((x) => valueAt(one, x)).filter(Boolean).map((value) => Math.abs(height(value) - at)));
      const free = Math.min(FREE, at, 1 - at, ...around);
      if (free > best.free) best = { free, n, at };
    }
  }
  const value = log(y.range[0]) + best.at * (log(y.range[1]) - log(y.range[0]));
  return note(log(best.n), value, line.text, { xanchor: "center", yanchor: "middle" });
}

// A curve's cost at n, on the straight line between the two nearest points; null beyond its ends.
function valueAt({ points }, n) {
  const i = points.findIndex((point) => point.x >= n), before = points[i - 1], after = points[i];
  if (i < 1) return i === 0 && after.x === n ? after.y : null;
  return before.y * (after.y / before.y) ** (log(n / before.x) / log(after.x / before.x));
}
