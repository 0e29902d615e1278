// A point for each case beside grey guides: under a roof, beside a Pareto front, or predicted over measured.

function pointsFigure(chart, looks, shown, mode = "lines+markers") {
  if (!chart) return null;
  const visible = inOrder(chart.curves, looks).filter((one) => shown(one.impl));
  const every = chart.curves.flatMap((one) => one.points.map((point) => point.n));
  const traces = chart.guides.flatMap(guideTraces);
  for (const one of visible) {
    const look = looks[one.impl], line = { color: faint(look.colour, 0.55), width: 1 };
    const hover = one.points.map((point) => `<b>${lines(one.impl)}</b><br>${lines(point.text)}`);
    const size = one.points.map((point) => 6 + 5 * grown(point.n, Math.min(...every), Math.max(...every)));
    traces.push(...measured(one, look, hover, chart.y, { bare: mode !== "markers" && crowded(visible), size, more: { line, mode } }));
  }
  const annotations = chart.guides.flatMap((guide) => guide.texts.map((text, i) => (
    note(log(guide.x.at(-i)), log(Math.max(...guide.top)), text, {
      xanchor: i ? "right" : "left", yshift: i ? 0 : 14, yanchor: "bottom", bgcolor: "rgba(255,255,255,0.8)", borderpad: 1,
    }))));
  return { traces, layout: layout(axis(chart.x), axis(chart.y), { annotations, ...uncrowded(visible), hovermode: "closest", margin: { l: 62, r: 30, t: 14, b: 48 } }) };
}

// 0 at the smallest n, 1 at the largest.
const grown = (n, least, most) => (most > least ? log(n / least) / log(most / least) : 0.5);

function guideTraces({ x, y, top }) {
  const common = { type: "scatter", mode: "lines", meta: { kind: "guide" }, hoverinfo: "skip", showlegend: false };
  const band = { ...common, x: [...x, ...[...x].reverse()], y: [...top, ...[...y].reverse()], line: { width: 0 }, fill: "toself", fillcolor: faint(GREY, 0.18) };
  return [...(top.length ? [band] : []), { ...common, x, y, line: { color: GREY, width: 2 } }];
}

function drawPredictions(data) {
  for (const [metric, chart] of Object.entries(data.predictions)) draw(`prediction-${metric}`, pointsFigure(chart, data.looks, () => true, "markers"));
}
