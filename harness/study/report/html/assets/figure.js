// What all figures share. Colours of text and grid are of charts.css; those here are what a saved image gets.

const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif";
const CONFIG = { responsive: true, displaylogo: false, modeBarButtons: [["toImage"]], doubleClick: false };
const GREY = "#7a7d83";

const log = Math.log10;

function axis(frame, more = {}) {
  return {
    type: "log", range: frame.range.map(log), tickmode: "array", ...(frame.title && { title: { text: plain(frame.title), standoff: 8 } }),
    tickvals: frame.ticks.map((tick) => tick[0]), ticktext: frame.ticks.map((tick) => tick[1]),
    fixedrange: true, zeroline: false, gridcolor: "#e6e3dc", automargin: true, ...more,
  };
}

// The axis of n, or of what a panel is drawn over instead: the last word of its title is its letter.
const letterOf = (frame) => plain(frame.title.split(" ").at(-1));
const axisOfN = (frame) => axis(frame, {
  unifiedhovertitle: { text: `${letterOf(frame)} = %{x}` },
  hoverformat: frame.ticks.every(([value]) => Number.isInteger(value)) ? "d" : ".6~g",
});

function layout(x, y, more = {}) {
  return {
    height: 420, margin: { l: 62, r: 14, t: 10, b: 48 }, xaxis: x, yaxis: y,
    font: { family: SANS, size: 12, color: "#44474d" }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    hovermode: "x unified", hoverdistance: 40, dragmode: false,
    hoverlabel: { align: "left", namelength: -1, font: { family: SANS, size: 12 }, bgcolor: "#ffffff", bordercolor: GREY },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -0.17, yanchor: "top", itemclick: false, itemdoubleclick: false, itemsizing: "constant",
      font: { size: 12 }, bgcolor: "rgba(0,0,0,0)" },
    ...more,
  };
}

// With more layers than this a chart is crowded: no bars, no legend (the bar that chooses has the marks), and the
// pointer names the nearest rather than all.
const MANY = 10;
const crowded = (curves) => curves.length > MANY;
const uncrowded = (curves) => (crowded(curves) ? { showlegend: false, hovermode: "closest", hoverdistance: 20 } : {});

// Curves in the order in which the impls stand everywhere.
const inOrder = (curves, looks) => Object.keys(looks).flatMap((impl) => curves.filter((one) => one.impl === impl));

const hasEnds = (point) => point.lo !== null && point.hi !== null;

// The turns of curves that lie on each other at every n: `{impl: [turn, number of curves]}`. They have dashes and
// markers in turn, so that all of them are seen.
const ON_EACH_OTHER = 0.008; // of the height
function turns(curves, frame) {
  const height = (value) => (log(value) - log(frame.range[0])) / (log(frame.range[1]) - log(frame.range[0]));
  const groups = [];
  for (const one of curves) {
    const same = (other) => other.points.length === one.points.length && other.points.every(({ x, y }, i) =>
      x === one.points[i].x && Math.abs(height(y) - height(one.points[i].y)) <= ON_EACH_OTHER);
    const group = groups.find((found) => same(found[0]));
    if (group) group.push(one);
    else groups.push([one]);
  }
  return Object.fromEntries(groups.flatMap((group) => group.map((one, turn) => [one.impl, [turn, group.length]])));
}

const STRIPE = 8; // CSS pixels
function striped([turn, number], look) {
  const dash = [0, turn, 1, number - 1 - turn].map((part) => `${part * STRIPE}px`).join(",");
  return number === 1 ? {} : { line: { color: look.colour, width: 2, dash } };
}

// A measured curve, with bars and arrow heads unless it is to be `bare`. One that takes turns has dashes, and every so
// many of its markers. Cases whose intervals are too wide to compare them are hollow. The legend shows the plain look,
// by a curve without points if this one differs.
function measured(one, look, hover, frame, { bare = false, turn = [0, 1], size = 8, more = {} } = {}) {
  const { points } = one, hollow = points.some((point) => point.hollow);
  const opacity = turn[1] === 1 ? 1 : points.map((_, i) => (i % turn[1] === turn[0] ? 1 : 0));
  const symbol = hollow ? points.map((point) => look.symbol + (point.hollow ? "-open" : "")) : look.symbol;
  const bars = bare || !points.some(hasEnds) ? {} : { error_y: errorBars(points, look, frame) };
  const trace = curve(one.impl, look, points.map(({ x }) => x), points.map(({ y }) => y), hover, {
    marker: { color: look.colour, symbol, size, opacity }, ...striped(turn, look), ...bars, ...more,
  });
  const heads = bare ? [] : arrowHeads(one, look, frame);
  if (turn[1] === 1 && !hollow) return [trace, ...heads];
  const entry = curve(one.impl, look, [null], [null], [""], { hoverinfo: "skip", hovertemplate: null, meta: { impl: one.impl, kind: "legend" } });
  return [{ ...trace, showlegend: false }, entry, ...heads];
}

// A line with markers, in the look of its impl.
function curve(impl, look, x, y, hover, more = {}) {
  return {
    type: "scatter", mode: "lines+markers", name: lines(impl, 36), meta: { impl, kind: "curve" }, x, y,
    customdata: hover, hovertemplate: "%{customdata}<extra></extra>",
    line: { color: look.colour, width: 2, dash: look.dash }, marker: { color: look.colour, symbol: look.symbol, size: 8 }, ...more,
  };
}

// Bars from lo to hi at each point, cut at the frame. No bar where an end is not known.
function errorBars(points, look, { range: [low, high] }) {
  const known = (point, end, limit) => (hasEnds(point) ? limit(end) : point.y);
  return {
    type: "data", symmetric: false, color: faint(look.colour, 0.7), thickness: 1.3, width: 3,
    array: points.map((point) => Math.max(known(point, point.hi, (hi) => Math.min(hi, high)) - point.y, 0)),
    arrayminus: points.map((point) => Math.max(point.y - known(point, point.lo, (lo) => Math.max(lo, low)), 0)),
  };
}

// Arrow heads at the frame where bars go on beyond it: no trace if there are none. They lie a little inside, since the
// library leaves out a marker that rounding puts outside.
const INSIDE = 1.001;
function arrowHeads({ impl, points }, look, { range: [low, high] }) {
  const below = points.filter((point) => hasEnds(point) && point.lo < low), above = points.filter((point) => hasEnds(point) && point.hi > high);
  if (!below.length && !above.length) return [];
  return [{
    type: "scatter", mode: "markers", meta: { impl, kind: "beyond" }, hoverinfo: "skip", showlegend: false, cliponaxis: false,
    x: [...below, ...above].map(({ x }) => x), y: [...below.map(() => low * INSIDE), ...above.map(() => high / INSIDE)],
    marker: { color: look.colour, size: 9, symbol: [...below.map(() => "arrow-down"), ...above.map(() => "arrow-up")] },
  }];
}

const note = (x, y, text, more = {}) => ({ x, y, text: plain(text), showarrow: false, font: { size: 11 }, ...more });

// Draw, or say why there is nothing to draw.
function draw(id, figure) {
  const place = document.querySelector(`#${id} .plot`);
  const empty = document.querySelector(`#${id} .empty`);
  const beyond = document.querySelector(`#${id} .beyond`);
  const hollow = document.querySelector(`#${id} .hollow`);
  if (hollow) hollow.hidden = !figure?.traces.some((trace) => [trace.marker?.symbol].flat().some((name) => name?.endsWith("-open")));
  if (beyond) beyond.hidden = !figure?.traces.some((trace) => trace.meta?.kind === "beyond");
  place.hidden = !figure;
  if (empty) empty.hidden = Boolean(figure);
  // Without a picture and without a word on why, there is nothing to set a heading over.
  else document.getElementById(id).hidden = !figure;
  if (figure) Plotly.react(place, figure.traces, figure.layout, CONFIG);
  else if (place.data) Plotly.react(place, [], { width: 0, height: 0 }, CONFIG); // not purged: it may still be drawing
}
