// Time, peak memory and sequential depth of the opening setting, each curve with its name at its end.

const OVERVIEW_HEIGHT = 215, NAME_LINE = 14; // CSS pixels
const NAME_WIDTH = 17; // characters of a line of a name

function overviewFigure(overview, metric, chart, looks) {
  const curves = inOrder(chart.curves, looks);
  const names = Object.fromEntries(curves.map((one) => [one.impl, nameLines(one.impl)]));
  const longest = Math.max(...Object.values(names).flat().map((line) => plainLength(line)));
  const margin = { l: 58, r: 26 + 6.3 * longest, t: 8, b: 42 };
  const traces = metric === "time" && overview.crossing ? crossingMark(overview.crossing, chart.y, looks) : [];
  const turn = turns(curves, chart.y);
  for (const one of curves) {
    const hover = one.points.map(({ text }) => named(one.impl, plain(text)));
    traces.push(...measured(one, looks[one.impl], hover, chart.y, { turn: turn[one.impl] }));
  }
  const annotations = endNames(curves, names, chart.y, OVERVIEW_HEIGHT - margin.t - margin.b, looks);
  const more = { annotations, showlegend: false, height: OVERVIEW_HEIGHT, margin };
  const room = document.getElementById(`overview-${metric}`).clientWidth - margin.l - margin.r;
  return { traces, layout: layout(axisOfN(thinned(chart.x, room)), axis(chart.y), more) };
}

// At most two lines of a name, which is cut after a dot if there is one.
function nameLines(impl) {
  const spaced = impl.length > NAME_WIDTH ? impl.replace(/\.(?=[^.]*$)/, ". ") : impl;
  return lines(spaced, NAME_WIDTH).split("<br>").slice(0, 2);
}

// The axis with as many of its ticks as fit into the room: every k-th, and always the largest.
const TICK = 31; // CSS pixels
function thinned(frame, room) {
  const step = Math.ceil(frame.ticks.length / Math.max(2, Math.floor(room / TICK)));
  return { ...frame, ticks: frame.ticks.filter((_, i) => (frame.ticks.length - 1 - i) % step === 0) };
}

// Of escaped text, the characters that a reader sees.
const plainLength = (text) => text.replace(/&[#\w]+;/g, "x").length;

// Names beside the last points, moved apart; a thin line leads from each to its curve.
function endNames(curves, names, frame, height, looks) {
  const share = (value) => (log(value) - log(frame.range[0])) / (log(frame.range[1]) - log(frame.range[0]));
  const ends = curves.map((one) => ({ ...one.points.at(-1), impl: one.impl, lines: names[one.impl] }))
    .map((end) => ({ ...end, wanted: height * (1 - share(end.y)), high: NAME_LINE * end.lines.length + 1 }))
    .sort((a, b) => a.wanted - b.wanted);
  spread(ends, height);
  return ends.map((end) => ({
    x: log(end.x), y: log(end.y), text: end.lines.join("<br>"), font: { size: 11 }, align: "left", xanchor: "left", yanchor: "middle",
    ax: 16, ay: end.at - end.wanted, showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: looks[end.impl].colour, standoff: 5,
  }));
}

// Gives each the middle `at` of its place, in pixels from the top: below the one before it, and none below the bottom.
function spread(ends, height) {
  let top = 0;
  for (const end of ends) {
    end.at = Math.max(end.wanted, top + end.high / 2);
    top = end.at + end.high / 2;
  }
  let bottom = height;
  for (const end of [...ends].reverse()) {
    end.at = Math.min(end.at, bottom - end.high / 2);
    bottom = end.at - end.high / 2;
  }
}

// The n from which one is faster, as a dotted line, and its interval as a shade.
function crossingMark(crossing, frame, looks) {
  const { colour } = looks[crossing.impl], [low, high] = frame.range;
  const common = { type: "scatter", mode: "lines", meta: { impl: crossing.impl, kind: "crossing" }, hoverinfo: "skip", showlegend: false };
  return [
    { ...common, x: [crossing.lo, crossing.hi, crossing.hi, crossing.lo], y: [low, low, high, high], fill: "toself", fillcolor: faint(colour, 0.16), line: { width: 0 } },
    { ...common, x: [crossing.n, crossing.n], y: [low, high], line: { color: colour, width: 1.5, dash: "2px,3px" } },
  ];
}

function drawOverview(data) {
  for (const [metric, chart] of Object.entries(data.overview?.charts ?? {})) {
    draw(`overview-${metric}`, overviewFigure(data.overview, metric, chart, data.looks));
  }
}
