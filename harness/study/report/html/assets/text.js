// Texts for the chart library, which reads some tags and %{…}: whatever came from outside is made plain first.

const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "%": "&#37;" };
const plain = (text) => String(text).replace(/[&<>%]/g, (sign) => SIGNS[sign]);

// Lines of at most `width` characters, each plain, joined as the library wants them; longer words are cut.
function lines(text, width = 46) {
  const found = [""];
  const words = String(text).split(/\s+(?!%)/).flatMap((word) => word.match(new RegExp(`.{1,${width}}`, "gsu")) ?? []);
  for (const word of words) {
    if (found.at(-1) && found.at(-1).length + word.length >= width) found.push("");
    found[found.length - 1] += (found.at(-1) ? " " : "") + word;
  }
  return found.map(plain).join("<br>");
}

// A name and what is told of it: on a narrow screen below each other, or what is told would be cut.
const NARROW = matchMedia("(max-width: 560px)");
const named = (impl, text) => `<b>${lines(impl)}</b>${NARROW.matches ? "<br>" : "  "}${text}`;

const times = (ratio) => `${ratio >= 99.5 ? ratio.toFixed(0) : ratio.toPrecision(ratio >= 9.95 ? 3 : 2)} ×`;

const faint = (colour, share) => {
  const part = (i) => parseInt(colour.slice(i, i + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},${share})`;
};
