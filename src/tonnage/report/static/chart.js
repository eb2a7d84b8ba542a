// @ts-check
/**
 * One chart over time, on uPlot: lines in steps, stacked areas, dashed limits, decisions as marks.
 * The board and the reports of demo and simulate draw with it. Colours are those of the page, so a
 * chart is drawn anew when the reader's system turns dark.
 */
(() => {
  const HEIGHT = 190, NEAR = 8;

  /** @param {string} name */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /** @param {number[][]} lists what lies on each other, lowest first @returns {number[][]} */
  function stack(lists) {
    /** @type {number[][]} */
    const found = [];
    lists.forEach((list, number) => found.push(list.map((value, at) => value + (number ? found[number - 1][at] : 0))));
    return found;
  }

  /** @param {any} chart @param {any[]} marks */
  function triangles(chart, marks) {
    const { ctx } = chart;
    const { top, height } = chart.bbox;
    const size = 5 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = colour("ink");
    for (const mark of marks) {
      const x = chart.valToPos(mark.at, "x", true);
      if (x < chart.bbox.left || x > chart.bbox.left + chart.bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x - size, top + height);
      ctx.lineTo(x + size, top + height);
      ctx.lineTo(x, top + height - 1.6 * size);
      ctx.fill();
    }
    ctx.restore();
  }

  /**
   * @param {HTMLElement} box
   * @param {{times: number[], series: {name: string, colour: string, shape: string, values: (number | null)[]}[],
   *   marks: {id?: string, at: number, text: string}[], unit: string, stacked?: boolean, relative?: boolean,
   *   opened?: (id: string) => void}} what
   * @returns {{remove: () => void}}
   */
  window.tonnageChart = (box, what) => {
    const reading = document.createElement("p");
    reading.className = "reading";
    const areas = what.series.filter((one) => one.shape === "area");
    const heights = what.stacked ? stack(areas.map((one) => one.values.map((value) => value || 0))) : areas.map((one) => one.values);
    // The highest first: what is below is painted over it.
    const order = what.stacked ? [...areas].reverse() : areas;
    const lines = what.series.filter((one) => one.shape !== "area");
    const drawn = [...order, ...lines];
    const data = [what.times, ...order.map((one) => heights[areas.indexOf(one)]), ...lines.map((one) => one.values)];
    const stepped = window.uPlot.paths.stepped({ align: 1 });
    const soft = colour("soft"), rule = colour("rule");
    const axis = { stroke: soft, grid: { stroke: rule, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const moment = (/** @type {number} */ at) => (what.relative ? clock(at) : new Date(at * 1000).toISOString().slice(11, 19));
    const chart = new window.uPlot({
      width: Math.max(box.clientWidth, 200),
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: !what.relative }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] } },
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      axes: [
        { ...axis, size: 28, values: (_, at) => at.map(what.relative ? clock : short(what.times)) },
        { ...axis, size: 46, values: (_, at) => at.map((one) => (Math.abs(one) >= 1e4 ? `${one / 1e3}k` : `${+one.toFixed(3)}`)) },
      ],
      series: [{}, ...drawn.map((one) => ({
        label: one.name,
        stroke: colour(one.colour),
        width: one.shape === "area" ? 0 : 1.75,
        fill: one.shape === "area" ? colour(one.colour) : undefined,
        dash: one.shape === "limit" ? [5, 4] : undefined,
        paths: one.shape === "slope" ? undefined : stepped,
        points: { show: false },
      }))],
      hooks: {
        draw: [(chart) => triangles(chart, what.marks)],
        setCursor: [(chart) => { reading.textContent = read(chart.cursor.idx, chart.cursor.left); }],
      },
    }, data, box);
    box.append(reading);

    /** The mark at a place of the chart. @param {number} left */
    function mark(left) {
      return what.marks.find((one) => Math.abs(chart.valToPos(one.at, "x") - left) <= NEAR);
    }

    /** @param {number | null} at @param {number} left */
    function read(at, left) {
      if (at === null || at === undefined) return "";
      const near = mark(left);
      const values = what.series.map((one) => `${one.name} ${one.values[at] ?? "–"}`);
      return `${moment(what.times[at])}  ${values.join(", ")}${near ? `  ▲ ${near.text}` : ""}`;
    }

    chart.over.addEventListener("click", () => {
      const near = mark(chart.cursor.left);
      if (near && near.id && what.opened) what.opened(near.id);
    });
    const resized = new ResizeObserver(() => chart.setSize({ width: Math.max(box.clientWidth, 200), height: HEIGHT }));
    resized.observe(box);
    return { remove() { resized.disconnect(); chart.destroy(); reading.remove(); } };
  };

  /** Times of a day, with seconds only where they tell them apart. @param {number[]} times */
  function short(times) {
    const long = times.length > 1 && times[times.length - 1] - times[0] > 600;
    return (/** @type {number} */ at) => new Date(at * 1000).toISOString().slice(11, long ? 16 : 19);
  }

  /** Seconds since the beginning. @param {number} at */
  function clock(at) {
    const parts = [[Math.floor(at / 3600), "h"], [Math.floor((at % 3600) / 60), "m"], [Math.round(at % 60), "s"]];
    return parts.filter(([number]) => number).map(([number, unit]) => `${number}${unit}`).join("") || "0";
  }
})();
