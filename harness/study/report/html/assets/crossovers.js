// From which n on one costs more than another: a row each.

const LINE = 15, BAR = 28, GAP = 12; // CSS pixels
const MOST_ROWS = 40;

const pairs = (panel, shown, metric) =>
  (panel.crossovers?.rows ?? []).filter((row) => row.metric === metric && shown(row.slower) && shown(row.faster));

// Pairs without a sure crossing, in one sentence; empty without any.
const MOST_UNDECIDED = 12;
function undecidedPairs(panel, shown, metric) {
  const names = pairs(panel, shown, metric).filter((row) => row.n === null).map((row) => `${row.slower} and ${row.faster}`);
  const left = names.length - MOST_UNDECIDED;
  const more = left > 0 ? `; and ${left} more: see crossovers.csv` : "";
  return names.length ? `Undecided, since noise alone could make a crossing: ${names.slice(0, MOST_UNDECIDED).join("; ")}${more}.` : "";
}

function crossoversFigure(panel, looks, shown, metric) {
  const every = pairs(panel, shown, metric).filter((row) => row.n !== null);
  if (!every.length) return null;
  const rows = every.slice(0, MOST_ROWS), left = every.length - rows.length;
  const frame = panel.crossovers.x;
  // Names stand to the left of their bars if there is room, and above them otherwise.
  const width = document.getElementById("chart-crossovers").clientWidth, beside = width > 700 ? 290 : 0;
  // Characters that a line has room for; those in bold are wider.
  const room = (each) => Math.max(24, Math.floor((beside || width) / each));
  const names = (row) => lines(`${row.slower} over ${row.faster}`, room(8.5));
  const texts = rows.map((row) => `<b>${names(row)}</b><br>${lines(row.text, room(6.8))}`);
  // y counts pixels downwards: rows are as high as their texts.
  let foot = 0;
  const bar = beside ? GAP : BAR;
  const high = texts.map((text) => bar + LINE * text.split("<br>").length);
  const feet = high.map((pixels) => (foot -= pixels));
  const traces = rows.map((row, i) => crossing(row, feet[i] + (beside ? high[i] : bar) / 2, looks[row.slower], frame));
  const label = { x: 0, xref: "paper", xanchor: "left", xshift: -beside, align: "left", showarrow: false, font: { size: 12 } };
  const annotations = rows.map((row, i) => ({
    ...label, y: feet[i] + (beside ? high[i] / 2 : bar - 6), yanchor: beside ? "middle" : "bottom", text: texts[i],
  }));
  if (left) {
    foot -= 2 * LINE;
    annotations.push({
      ...label, y: foot + LINE / 2, yanchor: "bottom", text: lines(`and ${left} more: choose fewer layers above, or see crossovers.csv`, Math.floor(width / 6.8)),
    });
  }
  const y = { range: [foot, 0], visible: false, fixedrange: true };
  return {
    traces,
    layout: layout(axis(frame), y, {
      annotations, height: 70 - foot, showlegend: false, hovermode: "closest", margin: { l: 10 + beside, r: 14, t: 4, b: 48 },
    }),
  };
}

// The interval as a line, open to the frame's end where it lies beyond what was measured; the n itself as a marker.
function crossing(row, y, look, frame) {
  const lo = row.lo ?? frame.range[0], hi = row.hi ?? frame.range[1];
  const hover = lines(row.sentence);
  return {
    type: "scatter", mode: "lines+markers", meta: { impl: row.slower, faster: row.faster, kind: "crossover" },
    x: [lo, row.n, hi], y: [y, y, y], customdata: [hover, hover, hover], hovertemplate: "%{customdata}<extra></extra>",
    line: { color: faint(look.colour, 0.6), width: 3 },
    marker: { color: look.colour, symbol: look.symbol, size: [0.1, 10, 0.1] },
  };
}
