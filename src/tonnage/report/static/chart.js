// @ts-check
/**
 * One chart over time, on uPlot: lines in steps, stacked areas, dashed limits, decisions as marks.
 * The board and the reports of demo and simulate draw with it. Colours are those of the page, so a
 * chart is drawn anew when the reader's system turns dark.
 */
(() => {
  const HEIGHT = 190, NEAR = 8;
  // Seconds between times on the axis, where they count from the beginning.
  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400,
    ...[2, 5, 7, 14, 28, 56, 112, 365].map((days) => days * 86400)];

  /** @param {string} name */
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /** @param {number[][]} lists what lies on each other, lowest first @returns {number[][]} */
  function stack(lists) {
    /** @type {number[][]} */
    const found = [];
    lists.forEach((list, number) => found.push(list.map((value, at) => value + (number ? found[number - 1][at] : 0))));
    return found;
  }

  /**
   * What lies over the lines: the unit at its axis, decisions from below, what was done from above.
   * @param {any} chart @param {any[]} marks @param {string} unit
   */
  function signs(chart, marks, unit) {
    const { ctx } = chart;
    const { left, top, width, height } = chart.bbox;
    const size = 5 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = colour("soft");
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.fillText(unit, left - size, top - 1.6 * size);
    for (const mark of marks) {
      const x = chart.valToPos(mark.at, "x", true);
      if (x < left || x > left + width) continue;
      const done = mark.kind === "done";
      ctx.fillStyle = colour(done ? "soft" : "ink");
      const base = done ? top - 1.6 * size : top + height, tip = done ? top : top + height - 1.6 * size;
      ctx.beginPath();
      ctx.moveTo(x - size, base);
      ctx.lineTo(x + size, base);
      ctx.lineTo(x, tip);
      ctx.fill();
      if (!done) continue;
      ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /**
   * @param {HTMLElement} box
   * @param {{times: number[], series: {name: string, colour: string, shape: string, values: (number | null)[]}[],
   *   marks: {id?: string, at: number, text: string, kind?: string}[], unit: string, stacked?: boolean, relative?: boolean,
   *   end?: number, top?: number, opened?: (id: string) => void}} what `relative`: times are seconds since the beginning;
   *   `end` and `top`: how far the axes go, where the data alone does not say it
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
      padding: [20, null, null, null],
      scales: {
        x: { time: !what.relative, ...(what.end ? { range: [0, what.end] } : {}) },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), (what.top || high || 1) * 1.08] },
      },
      tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      axes: [
        { ...axis, size: 28, ...(what.relative ? { incrs: STEPS, space: 60 } : {}), values: (_, at) => at.map(what.relative ? clock : short(what.times)) },
        { ...axis, size: 46, values: (_, at) => at.map((one) => (Math.abs(one) >= 1e4 ? `${one / 1e3}k` : amount(one))) },
      ],
      series: [{}, ...drawn.map((one) => ({
        label: one.name,
        stroke: colour(one.colour),
        width: one.shape === "area" ? 0 : 1.75,
        fill: one.shape === "area" ? colour(one.colour) : undefined,
        dash: one.shape === "limit" ? [5, 4] : undefined,
        paths: one.shape === "slope" ? undefined : stepped,
        spanGaps: true,
        points: { show: false },
      }))],
      hooks: {
        draw: [(chart) => signs(chart, what.marks, what.unit)],
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
      const values = what.series.map((one) => `${one.name} ${amount(one.values[at])}`);
      return `${moment(what.times[at])}  ${values.join(", ")}${near ? `  ${near.kind === "done" ? "▼" : "▲"} ${near.text}` : ""}`;
    }

    chart.over.addEventListener("click", () => {
      const near = mark(chart.cursor.left);
      if (near && near.id && what.opened) what.opened(near.id);
    });
    const resized = new ResizeObserver(() => chart.setSize({ width: Math.max(box.clientWidth, 200), height: HEIGHT }));
    resized.observe(box);
    return { remove() { resized.disconnect(); chart.destroy(); reading.remove(); } };
  };

  /** @param {number | null | undefined} value */
  function amount(value) {
    return value === null || value === undefined ? "–" : `${+value.toFixed(3)}`;
  }

  /** Times of a day, with seconds only where they tell them apart. @param {number[]} times */
  function short(times) {
    const long = times.length > 1 && times[times.length - 1] - times[0] > 600;
    return (/** @type {number} */ at) => new Date(at * 1000).toISOString().slice(11, long ? 16 : 19);
  }

  /** Seconds since the beginning. @param {number} at */
  function clock(at) {
    if (at > 2 * 86400 && at % 86400 === 0) return `${at / 86400}d`;
    const parts = [[Math.floor(at / 3600), "h"], [Math.floor((at % 3600) / 60), "m"], [Math.round(at % 60), "s"]];
    return parts.filter(([number]) => number).map(([number, unit]) => `${number}${unit}`).join("") || "0";
  }
})();
