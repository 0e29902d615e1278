// How many times as fast as one of them each impl is.

function speedupFigure(panel, looks, shown, baseline) {
  const base = panel.time?.curves.find((one) => one.impl === baseline);
  if (!base) return null;
  const others = inOrder(panel.time.curves, looks).filter((one) => one.impl !== baseline && shown(one.impl));
  const found = others.map((one) => ratio(one, base));
  const all = [1, ...found.flatMap((one) => one.points.map(({ y }) => y))];
  const y = ratioFrame(Math.min(...all), Math.max(...all));
  const traces = [{
    type: "scatter", mode: "lines", x: panel.time.x.range, y: [1, 1], meta: { kind: "guide" }, hoverinfo: "skip",
    showlegend: false, line: { color: GREY, width: 1, dash: "4px,4px" },
  }];
  for (const one of found) {
    const hover = one.points.map((point) => named(one.impl, times(point.y) + between(point)));
    traces.push(...measured(one, looks[one.impl], hover, y, { bare: crowded(found) }));
  }
  return { traces, layout: layout(axisOfN(panel.time.x), axis(y), uncrowded(found)) };
}

// The ratio of two independent times: the distances of their ends, as logarithms, add up as squares.
function ratio({ impl, points }, base) {
  const apart = (one, other) => (one && other ? Math.abs(Math.log(one / other)) : null);
  const reach = (a, b) => (a === null || b === null ? null : Math.exp(Math.hypot(a, b)));
  const ratios = [];
  for (const own of points) {
    const other = base.points.find((point) => point.x === own.x);
    if (!other) continue;
    const y = other.y / own.y, up = reach(apart(other.hi, other.y), apart(own.y, own.lo));
    const down = reach(apart(other.y, other.lo), apart(own.hi, own.y));
    const lo = down === null ? null : y / down, hi = up === null ? null : y * up;
    ratios.push({ x: own.x, y, lo, hi, hollow: lo !== null && hi !== null && hi > data.widest * lo });
  }
  return { impl, points: ratios };
}

const between = (point) => (hasEnds(point) ? ` (${times(point.lo)} to ${times(point.hi)})` : "");

function ratioFrame(least, most) {
  const range = [Math.min(least / 1.5, 0.5), Math.max(most * 1.5, 2)];
  const steps = range[1] / range[0] < 60 ? [1, 2, 5] : range[1] / range[0] < 3000 ? [1, 3] : [1];
  const ticks = [];
  for (let e = Math.floor(log(range[0])); e <= log(range[1]); e++) {
    for (const step of steps) {
      const value = Number(`${step}e${e}`);
      if (value >= range[0] && value <= range[1]) ticks.push([value, `${value} ×`]);
    }
  }
  return { range, ticks, title: "" };
}
