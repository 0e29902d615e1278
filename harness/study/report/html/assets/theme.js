// Light or dark: as the system has it, until the button says otherwise. On paper always light, and as wide as the paper.

const system = matchMedia("(prefers-color-scheme: dark)");
const theme = document.getElementById("theme");

const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const nameOther = () => { theme.querySelector(".label").textContent = isDark() ? "light" : "dark"; };

theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameOther();
});
system.addEventListener("change", nameOther);
nameOther();

const PAPER = 660; // CSS pixels between the margins of A4
const plots = () => [...document.querySelectorAll(".plot")].filter((plot) => plot.data);
addEventListener("beforeprint", () => plots().forEach((plot) => Plotly.relayout(plot, { width: PAPER })));
addEventListener("afterprint", () => plots().forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true })));
