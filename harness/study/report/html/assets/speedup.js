// How many times as fast as one of them each impl is.

function speedupFigure(panel, looks, shown, baseline) {
  const base = panel.compared?.curves.find((one) => one.impl === baseline);
  if (!base) return null;
  const others = inOrder(panel.compared.curves, looks).filter((one) => one.impl !== baseline && shown(one.impl));
  const found = others.map((one) => ratio(one, base));
  const all = [1, ...found.flatMap((one) => one.points.map(({ y }) => y))];
  const y = ratioFrame(Math.min(...all), Math.max(...all));
  const traces = [{
    type: "scatter", mode: "lines", x: panel.compared.x.range, y: [1, 1], meta: { kind: "guide" }, hoverinfo: "skip",
    showlegend: false, line: { color: GREY, width: 1, dash: "4px,4px" },
  }];
  for (const one of found) {
    const hover = one.points.map(({ text }) => named(one.impl, text));
    traces.push(...measured(one, looks[one.impl], hover, y, { bare: crowded(found) }));
  }
  return { traces, layout: layout(axisOfN(panel.compared.x), axis(y), uncrowded(found)) };
}

// The ratio of two independent times: the distances of their ends, as logarithms, add up as squares, also with what
// unlike conditions add. This is `ratio_at` with `unlikeness`.
function ratio({ impl, points }, base) {
  const ratios = [];
  for (const own of points) {
    const other = base.points.find((point) => point.x === own.x);
    if (!other) continue;
    const y = other.y / own.y, unlike = unlikeness(own, other);
    const bounded = unlike < Infinity && hasEnds(own) && hasEnds(other) && own.lo > 0 && other.lo > 0;
    const factor = (...distances) => Math.exp(Math.hypot(data.normal * unlike, ...distances.map(Math.log)));
    const lo = bounded ? y / factor(other.y / other.lo, own.hi / own.y) : null;
    const hi = bounded ? y * factor(other.hi / other.y, own.y / own.lo) : null;
    const hollow = bounded ? hi > data.widest * lo : unlike === Infinity;
    const why = unlike === Infinity ? " (timed by unlike hosts)" : "";
    ratios.push({ x: own.x, y, lo, hi, hollow, text: times(y) + (bounded ? ` (${times(lo)} to ${times(hi)})` : why) });
  }
  return { impl, points: ratios };
}

function unlikeness(one, other) {
  const hosts = [one, other].map((point) => point.host?.split(",") ?? []);
  if (hosts.every((names) => names.length) && !hosts[0].some((name) => hosts[1].includes(name))) return Infinity;
  const slower = one.probe_s && other.probe_s ? Math.abs(Math.log(one.probe_s / other.probe_s)) : 0;
  return slower > data.noise ? slower : 0;
}

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
