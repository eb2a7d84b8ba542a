// What somebody who looks at a report would complain of. Every function gives a list of sentences;
// the page is as it should be when the list is empty.
({
  sizes() {
    const found = [];
    const charts = document.querySelectorAll("svg.chart");
    if (charts.length === 0) found.push("there is no chart");
    for (const chart of charts) {
      const box = chart.getBoundingClientRect();
      if (box.width < 200 || box.height < 120) found.push(`${this.name(chart)} is ${this.place(box)}`);
    }
    return found;
  },

  shapes() {
    const found = [];
    const shapes = document.querySelectorAll("svg.chart .plot path");
    if (shapes.length === 0) found.push("nothing is drawn");
    for (const shape of shapes) {
      const chart = shape.closest("svg.chart");
      const box = shape.getBoundingClientRect();
      const kind = shape.getAttribute("class");
      const flat = shape.matches(".area") && box.height === 0;
      if (box.width === 0 || flat) found.push(`${this.name(chart)}: ${kind} is not to be seen`);
      if (!this.inside(box, chart.getBoundingClientRect(), 2))
        found.push(`${this.name(chart)}: ${kind} at ${this.place(box)} is outside of the axes`);
    }
    return found;
  },

  // Every picture has its drawing in its stead, of the whole width, with ink in it.
  drawings() {
    const found = [];
    const boxes = [...document.querySelectorAll(".plotted")];
    if (boxes.length === 0 || boxes.length !== document.querySelectorAll("svg.chart").length) found.push("charts are missing");
    if ([...document.querySelectorAll("svg.chart")].some((one) => one.getBoundingClientRect().height)) found.push("a picture shows too");
    for (const box of boxes) {
      const name = document.getElementById(box.getAttribute("aria-labelledby").split(" ")[0]).textContent;
      const canvas = box.querySelector("canvas");
      const { width, height } = canvas.getBoundingClientRect();
      if (Math.abs(width - box.clientWidth) > 1 || height < 120) found.push(`${name} is ${width} by ${height}`);
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      if (!pixels.some((value) => value)) found.push(`${name} is empty`);
    }
    return found;
  },

  labels() {
    const found = [];
    for (const chart of document.querySelectorAll("svg.chart")) {
      const panel = chart.closest(".panel").getBoundingClientRect();
      const legend = chart.closest(".panel").querySelectorAll(".legend .entry, h3");
      const labels = [...chart.querySelectorAll("text"), ...legend].filter((one) => one.textContent);
      const boxes = labels.map((one) => one.getBoundingClientRect());
      boxes.forEach((box, first) => {
        const text = labels[first].textContent;
        if (!this.inside(box, panel, 0)) found.push(`${this.name(chart)}: "${text}" is cut off`);
        boxes.slice(first + 1).forEach((other, more) => {
          if (this.meet(box, other))
            found.push(`${this.name(chart)}: "${text}" and "${labels[first + 1 + more].textContent}" overlap`);
        });
      });
    }
    return found;
  },

  // Tables may be wider than the window, in boxes of their own that scroll.
  widths() {
    const found = [];
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
    for (const one of document.querySelectorAll("main *")) {
      if (one.closest("svg") || one.parentElement.closest(".scroll")) continue;
      const box = one.getBoundingClientRect();
      if (box.right > width + 0.5 || box.left < -0.5)
        found.push(`<${one.localName}> "${one.textContent.slice(0, 40)}" leaves the window`);
      const scrolls = one.matches(".scroll");
      if (!scrolls && one.clientWidth && one.scrollWidth > one.clientWidth + 1)
        found.push(`<${one.localName}> "${one.textContent.slice(0, 40)}" does not hold its words`);
    }
    return found;
  },

  contrasts() {
    const found = new Set();
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const one = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || one.matches("title, desc")) continue;
      const style = getComputedStyle(one);
      const ink = this.colour(one.closest("svg") ? style.fill : style.color);
      const ratio = this.ratio(ink, this.ground(one));
      if (ratio < 4.5) found.add(`${one.localName}.${one.getAttribute("class")} has ${ratio.toFixed(2)}`);
    }
    return [...found];
  },

  // A pointer on a marker or between the axes has to reach something that has words.
  hovers() {
    const found = [];
    for (const chart of document.querySelectorAll("svg.chart")) {
      chart.scrollIntoView({ block: "center" });
      const box = chart.getBoundingClientRect();
      const words = this.words(box.left + box.width * 0.505, box.top + box.height * 0.4);
      if (!/^\d\d:\d\d:\d\d/.test(words))
        found.push(`${this.name(chart)}: nothing on hover but "${words}"`);
      for (const marker of chart.querySelectorAll(".marker")) {
        const sign = marker.querySelector("path").getBoundingClientRect();
        const told = this.words(sign.left + sign.width / 2, sign.top + sign.height / 2);
        if (!marker.querySelector("title").textContent || !/^(\dd )?\d\d:\d\d:\d\d \S/.test(told))
          found.push(`${this.name(chart)}: a marker says "${told}"`);
      }
    }
    return found;
  },

  hidden() {
    return [...document.querySelectorAll(".scroll")]
      .filter((box) => box.scrollHeight > box.clientHeight + 1)
      .map((box) => `${box.getAttribute("aria-label")} is cut off`);
  },

  name(chart) { return chart.querySelector("title").textContent; },
  place(box) { return [box.left, box.top, box.width, box.height].map(Math.round).join(" "); },
  words(x, y) {
    const hit = document.elementFromPoint(x, y);
    const telling = hit && hit.closest(".slice, .marker");
    return telling ? telling.querySelector("title").textContent : "";
  },
  inside(box, outer, slack) {
    return box.left >= outer.left - slack && box.right <= outer.right + slack
      && box.top >= outer.top - slack && box.bottom <= outer.bottom + slack;
  },
  meet(one, other) {
    return one.left < other.right && other.left < one.right
      && one.top < other.bottom && other.top < one.bottom;
  },
  colour(text) { return text.match(/[\d.]+/g).map(Number); },
  ground(element) {
    for (let one = element; one; one = one.parentElement) {
      const colour = this.colour(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  },
  light(colour) {
    const [red, green, blue] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  },
  ratio(one, other) {
    const [dark, bright] = [this.light(one), this.light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  },
})
