// Predicted over measured costs: on the line, a prediction is right.

function predictionFigure(chart, looks) {
  const traces = [{
    type: "scatter", mode: "lines", x: chart.axis.range, y: chart.axis.range, meta: { kind: "guide" }, hoverinfo: "skip",
    showlegend: false, line: { color: GREY, width: 1, dash: "4px,4px" },
  }];
  for (const impl of Object.keys(looks)) {
    const own = chart.points.filter((one) => one.impl === impl);
    if (!own.length) continue;
    const column = (name) => own.map((one) => one[name]);
    const hover = own.map((one) => `<b>${lines(impl)}</b><br>${lines(one.text)}`);
    const ends = { value: column("y"), lo: column("lo"), hi: column("hi") };
    const bars = { mode: "markers", error_y: errorBars(ends, looks[impl], chart.axis) };
    traces.push(curve(impl, looks[impl], column("x"), column("y"), hover, bars));
    traces.push(...arrowHeads(impl, ends, looks[impl], chart.axis, column("x")));
  }
  const title = (text) => ({ title: { text, standoff: 8 } });
  const x = axis(chart.axis, title("measured")), y = axis(chart.axis, title("predicted"));
  const many = new Set(chart.points.map((one) => one.impl)).size > MANY ? { showlegend: false } : {};
  return { traces, layout: layout(x, y, { hovermode: "closest", margin: { l: 62, r: 30, t: 14, b: 48 }, ...many }) };
}

function drawPredictions(data) {
  for (const chart of data.predictions) draw(`prediction-${chart.metric}`, predictionFigure(chart, data.looks));
}
