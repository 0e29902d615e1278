// Cases under the roof of their machine.

function rooflineFigure(panel, looks, shown) {
  const found = panel.roofline;
  if (!found) return null;
  const { roof } = found;
  const traces = [
    {
      type: "scatter", mode: "lines", meta: { kind: "roof band" }, hoverinfo: "skip", showlegend: false, line: { width: 0 },
      x: [...roof.x, ...[...roof.x].reverse()], y: [...roof.hi, ...[...roof.lo].reverse()],
      fill: "toself", fillcolor: "rgba(122,125,131,0.18)",
    },
    {
      type: "scatter", mode: "lines", meta: { kind: "roof" }, hoverinfo: "skip", showlegend: false, x: roof.x, y: roof.y,
      line: { color: GREY, width: 2 },
    },
  ];
  const visible = inOrder(found.curves, looks).filter((one) => shown(one.impl));
  for (const one of visible) {
    const look = looks[one.impl];
    const hover = one.text.map((text) => `<b>${plain(one.impl)}</b><br>${lines(text)}`);
    const bars = crowded(visible) ? {} : { error_y: errorBars({ ...one, value: one.y }, look, found.y) };
    traces.push(curve(one.impl, look, one.x, one.y, hover, {
      line: { color: faint(look.colour, 0.55), width: 1 },
      marker: { color: look.colour, symbol: symbols(one, look), size: one.n.map((n) => 6 + 5 * grown(n, panel.n)) },
      ...bars,
    }));
    if (!crowded(visible)) traces.push(...arrowHeads(one.impl, one, look, found.y, one.x));
  }
  const top = log(Math.max(...roof.hi)), corner = { yanchor: "bottom", bgcolor: "rgba(255,255,255,0.8)", borderpad: 1 };
  const annotations = [
    note(log(roof.x[0]), top, roof.memory, { xanchor: "left", yshift: 14, ...corner }),
    note(log(roof.x[2]), top, roof.compute, { xanchor: "right", ...corner }),
  ];
  const x = axis(found.x, { title: { text: "arithmetic intensity (FLOP/byte)", standoff: 8 } });
  return { traces, layout: layout(x, axis(found.y), { annotations, ...uncrowded(visible), hovermode: "closest" }) };
}

// 0 at the smallest n, 1 at the largest.
const grown = (n, frame) => {
  const first = frame.ticks[0][0], last = frame.ticks.at(-1)[0];
  return last > first ? log(n / first) / log(last / first) : 0.5;
};
