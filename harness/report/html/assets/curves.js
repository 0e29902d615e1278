// Time, memory and sequential depth against n.

function curvesFigure(panel, cost, looks, shown) {
  if (!cost) return null;
  const traces = guides(panel.n, cost.y);
  const visible = inOrder(cost.curves, looks).filter((one) => shown(one.impl));
  for (const one of visible) {
    const hover = one.text.map((text) => named(one.impl, plain(text)));
    const bars = crowded(visible) ? {} : { error_y: errorBars(one, looks[one.impl], cost.y) };
    traces.push(curve(one.impl, looks[one.impl], one.n, one.value, hover, bars));
  }
  traces.push(...failures({ ...cost, last: panel.n.ticks.at(-1)[0] }, looks, shown));
  const labels = guideLabels(panel.n, cost.y);
  return { traces, layout: layout(axisOfN(panel.n), axis(cost.y), { annotations: labels, ...uncrowded(visible) }) };
}

// Failed cases, each where it would have been; at the top where nobody knows.
function failures(cost, looks, shown) {
  const top = cost.y.range[1] / 1.2;
  const failed = cost.failed.filter((one) => shown(one.impl)).map((one) => ({ ...one, at: Math.min(one.value ?? top, top) }));
  const texts = failureTexts(failed, cost.y);
  return failed.map((one, i) => ({
    type: "scatter", mode: "markers+text", meta: { impl: one.impl, kind: "failed" }, showlegend: false, cliponaxis: false,
    x: [one.n], y: [one.at], text: [texts[i] && `<br>${plain(texts[i])}`], textposition: one.n === cost.last ? "bottom left" : "bottom center", textfont: { size: 11 },
    marker: { symbol: "x-thin", size: 10, color: looks[one.impl].colour, line: { width: 2.5, color: looks[one.impl].colour } },
    customdata: [named(one.impl, lines(one.text))], hovertemplate: "%{customdata}<extra></extra>",
  }));
}

// Statuses of those that lie together are told once, by the lowest, and not again where they go on at the next n.
const NEAR = 0.08; // of the height
function failureTexts(failed, y) {
  const height = (one) => (log(one.at) - log(y.range[0])) / (log(y.range[1]) - log(y.range[0]));
  const order = failed.map((_, i) => i).sort((a, b) => failed[a].n - failed[b].n || height(failed[a]) - height(failed[b]));
  const groups = [];
  for (const i of order) {
    const last = groups.at(-1)?.at(-1);
    if (last !== undefined && failed[last].n === failed[i].n && height(failed[i]) - height(failed[last]) < NEAR) groups.at(-1).push(i);
    else groups.push([i]);
  }
  const texts = failed.map(() => "");
  const byN = new Map();
  for (const group of groups) {
    const { n } = failed[group[0]], text = [...new Set(group.map((i) => failed[i].status))].join(", ");
    const before = [...byN.keys()].filter((other) => other < n).at(-1);
    if (before === undefined || !byN.get(before).has(text)) texts[group[0]] = text;
    byN.set(n, (byN.get(n) ?? new Set()).add(text));
  }
  return texts;
}

// Lines of slope 1 and 2 from the lower left: only their slope means something.
function guideEnds(n, y, power) {
  const from = n.ticks[0][0], last = n.ticks.at(-1)[0], foot = y.range[0] * 1.1, top = y.range[1];
  const to = Math.min(last, from * (top / foot) ** (1 / power));
  return { x: [from, to], y: [foot, foot * (to / from) ** power] };
}

function guides(n, y) {
  if (n.ticks.length < 2) return [];
  return [1, 2].map((power) => ({
    type: "scatter", mode: "lines", ...guideEnds(n, y, power), meta: { kind: "guide" }, hoverinfo: "skip", showlegend: false,
    line: { color: GREY, width: 1, dash: "4px,4px" },
  }));
}

function guideLabels(n, y) {
  if (n.ticks.length < 2) return [];
  return [1, 2].map((power) => {
    const ends = guideEnds(n, y, power);
    const part = 0.86, between = (pair) => log(pair[0]) + part * (log(pair[1]) - log(pair[0]));
    return note(between(ends.x), between(ends.y), power === 1 ? "∝ n" : "∝ n²", { xanchor: "left", yanchor: "top", xshift: 2 });
  });
}
