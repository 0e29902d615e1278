// The error of each case against its time, and the Pareto front at the largest n.

function accuracyFigure(panel, looks, shown) {
  const found = panel.accuracy;
  if (!found) return null;
  const visible = inOrder(found.curves, looks).filter((one) => shown(one.impl));
  const traces = [{
    type: "scatter", mode: "lines", meta: { kind: "front" }, hoverinfo: "skip", showlegend: false,
    x: found.front.x, y: found.front.y, line: { color: GREY, width: 2 },
  }];
  for (const one of visible) {
    const look = looks[one.impl];
    const hover = one.text.map((text) => `<b>${plain(one.impl)}</b><br>${lines(text)}`);
    traces.push(curve(one.impl, look, one.x, one.y, hover, {
      line: { color: faint(look.colour, 0.55), width: 1 },
      marker: { color: look.colour, symbol: symbols(one, look), size: one.n.map((n) => 6 + 5 * grown(n, panel.n)) },
    }));
  }
  const x = axis(found.x, { title: { text: "time per call", standoff: 8 } });
  return { traces, layout: layout(x, axis(found.y), { ...uncrowded(visible), hovermode: "closest" }) };
}
