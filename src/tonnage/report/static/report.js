// @ts-check
/**
 * The charts of a report, drawn as the board draws them. What each shows stands beside its picture
 * (SVG), which stays for paper, and for readers who run no scripts.
 */
(() => {
  /** @type {{remove: () => void}[]} */
  let drawn = [];

  /** @param {HTMLElement} box */
  const draw = (box) => window.tonnageChart(box, JSON.parse(/** @type {string} */ (box.dataset.chart)));

  function all() {
    drawn.forEach((one) => one.remove());
    drawn = [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".plotted"))].map(draw);
  }

  document.documentElement.classList.add("drawn");
  all();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
})();
