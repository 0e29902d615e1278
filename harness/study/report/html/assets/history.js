// The charts of a history: values over commits, with levels and marks where something changed.

const data = JSON.parse(document.getElementById("data").textContent);
const MARKS = { confirmed: "#c0492f", "not confirmed": GREY };
const OPEN = "#9a7b1a";
// The height of a label in pixels, and its width as a share of the chart.
const LABEL = { height: 14, width: 0.2 };

const axisOfCommits = () => ({
  type: "linear", range: [-0.6, data.commits.number - 0.4], tickmode: "array", fixedrange: true, zeroline: false,
  tickvals: data.commits.ticks.map((tick) => tick[0]), ticktext: data.commits.ticks.map((tick) => tick[1]),
  tickangle: -45, gridcolor: "#e6e3dc", automargin: true,
});

function seriesTraces(chart, one) {
  const look = data.looks[one.impl] ?? { colour: GREY, symbol: "circle", dash: "solid" };
  const x = one.values.map((_, i) => i);
  const hover = one.text.map((text) => lines(text));
  if (!one.levels) {
    const line = { color: look.colour, width: 2, dash: look.dash, shape: "hv" };
    return [curve(one.name, look, x, one.values, hover, { line, connectgaps: true })];
  }
  const ends = one.values.map((value, i) => (value === null ? [0, 0] : [one.hi[i] - value, value - one.lo[i]]));
  const bars = {
    type: "data", symmetric: false, color: faint(look.colour, 0.7), thickness: 1.3, width: 3,
    array: ends.map((end) => end[0]), arrayminus: ends.map((end) => end[1]),
  };
  const points = curve(one.name, look, x, one.values, hover, { mode: "markers", error_y: bars });
  const levels = one.levels.map(([first, last, level]) => ({
    type: "scatter", mode: "lines", x: [first - 0.4, last + 0.4], y: [level, level], meta: { kind: "level" },
    hoverinfo: "skip", showlegend: false, line: { color: look.colour, width: 2 },
  }));
  return [points, ...levels];
}

// The row of each mark's label: the lowest one whose last label has ended. Marks are in the order of the commits.
function rowsOfLabels(marks) {
  const ends = [];
  return marks.map(({ x }) => {
    const free = ends.findIndex((end) => end <= x), row = free < 0 ? ends.length : free;
    ends[row] = x + LABEL.width * data.commits.number;
    return row;
  });
}

function historyFigure(chart) {
  const ratios = Boolean(chart.marks), rows = rowsOfLabels(chart.marks ?? []);
  const y = {
    fixedrange: true, zeroline: ratios, zerolinewidth: 1, gridcolor: "#e6e3dc", automargin: true, nticks: 6,
    ...(ratios ? { ticksuffix: " %" } : { rangemode: "tozero" }),
  };
  const colour = (mark) => MARKS[mark.verdict] ?? OPEN;
  const shapes = (chart.marks ?? []).map((mark) => ({
    type: "line", x0: mark.x, x1: mark.x, yref: "paper", y0: 0, y1: 1, line: { color: colour(mark), width: 1.5, dash: "4px,3px" },
  }));
  const annotations = (chart.marks ?? []).map((mark, i) => note(mark.x, 1, mark.text, {
    yref: "paper", yanchor: "bottom", xanchor: "center", yshift: LABEL.height * rows[i], font: { size: 11, color: colour(mark) },
  }));
  const above = LABEL.height * Math.max(0, ...rows);
  const more = {
    height: (ratios ? 300 : 320) + above, hovermode: "closest", shapes, annotations, margin: { l: 56, r: 14, t: 24 + above, b: 60 },
    showlegend: !ratios || chart.series.length > 1, legend: { orientation: "h", x: 0, y: -0.3, yanchor: "top", font: { size: 12 }, itemclick: false, itemdoubleclick: false },
  };
  return { traces: chart.series.flatMap((one) => seriesTraces(chart, one)), layout: layout(axisOfCommits(), y, more) };
}

for (const chart of data.charts) draw(chart.id, historyFigure(chart));
