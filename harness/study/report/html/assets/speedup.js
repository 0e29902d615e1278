// How many times as fast as one of them each impl is.

function speedupFigure(panel, looks, shown, baseline) {
  const base = panel.time?.curves.find((one) => one.impl === baseline);
  if (!base) return null;
  const others = inOrder(panel.time.curves, looks).filter((one) => one.impl !== baseline && shown(one.impl));
  const found = others.map((one) => ratio(one, base));
  const all = [1, ...found.flatMap((one) => one.value)];
  const y = ratioFrame(Math.min(...all), Math.max(...all));
  const traces = [{
    type: "scatter", mode: "lines", x: panel.n.range, y: [1, 1], meta: { kind: "guide" }, hoverinfo: "skip",
    showlegend: false, line: { color: GREY, width: 1, dash: "4px,4px" },
  }];
  for (const one of found) {
    const hover = one.value.map((value, i) => named(one.impl, times(value) + between(one, i)));
    const bars = crowded(found) ? {} : { error_y: errorBars(one, looks[one.impl], y) };
    traces.push(...measured(one, looks[one.impl], hover, bars));
    if (!crowded(found)) traces.push(...arrowHeads(one.impl, one, looks[one.impl], y));
  }
  return { traces, layout: layout(axisOfN(panel.n), axis(y), uncrowded(found)) };
}

// The ratio of two independent times: the distances of their ends, as logarithms, add up as squares.
function ratio(one, base) {
  const common = one.n.filter((n) => base.n.includes(n));
  const at = (of, n) => {
    const i = of.n.indexOf(n);
    return { value: of.value[i], lo: of.lo[i], hi: of.hi[i] };
  };
  const apart = (one, other) => (one && other ? Math.abs(Math.log(one / other)) : null);
  const reach = (a, b) => (a === null || b === null ? null : Math.exp(Math.hypot(a, b)));
  const times = (value, factor) => (factor === null ? null : value * factor);
  const found = common.map((n) => {
    const own = at(one, n), its = at(base, n), value = its.value / own.value;
    const up = reach(apart(its.hi, its.value), apart(own.value, own.lo));
    const down = reach(apart(its.value, its.lo), apart(own.hi, own.value));
    return { value, lo: down === null ? null : value / down, hi: times(value, up) };
  });
  const column = (name) => found.map((point) => point[name]);
  return { impl: one.impl, n: common, value: column("value"), lo: column("lo"), hi: column("hi") };
}

const between = (one, i) => (one.lo[i] === null || one.hi[i] === null ? "" : ` (${times(one.lo[i])} to ${times(one.hi[i])})`);

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
  return { range, ticks };
}
