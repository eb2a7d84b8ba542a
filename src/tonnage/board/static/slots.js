// @ts-check
/** Slots: a row per node, a lane per resource; thousands of rows, of which those in sight are drawn. */
import { computed, effect, signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Lane, Legend, Name, Nothing, clean, count, html } from "./parts.js";
import { link, narrow, printing, route, set, table, value } from "./state.js";

const CONDITIONS = ["", "cordoned", "not ready", "driver missing", "going away"];
const FIRST = 6, FIELDS = 4;
const PRINTED = 400;

/** @param {number[]} row @param {number} lane */
export function cell(row, lane) {
  const at = FIRST + FIELDS * lane;
  return row.slice(at, at + FIELDS);
}

/** Words for group, type and zone of a row. @param {number[]} row */
export function place(row) {
  const labels = value("labels");
  return [0, 1, 2].map((field) => labels[row[field]]);
}

const scroll = signal({ top: 0, height: 900 });
let asked = false;
const look = () => {
  asked = false;
  scroll.value = { top: window.scrollY, height: window.innerHeight };
};
const soon = () => { if (!asked) { asked = true; requestAnimationFrame(look); } };
addEventListener("scroll", soon, { passive: true });
addEventListener("resize", soon);

const settings = computed(() => route.value.settings);
const by = computed(() => settings.value.get("by") || "group");
const sort = computed(() => settings.value.get("sort") || "fullest");
const wanted = computed(() => (settings.value.get("q") || "").toLowerCase());

const shown = computed(() => {
  const labels = value("labels") || [];
  const lanes = value("lanes") || [];
  let rows = [...table("nodes")];
  const text = wanted.value;
  if (text) {
    rows = rows.filter(([name, row]) => name.toLowerCase().includes(text)
      || [0, 1, 2].some((field) => labels[row[field]].toLowerCase().includes(text)));
  }
  const lane = lanes.findIndex((one) => one.id === sort.value);
  if (sort.value === "name") rows.sort(([one], [other]) => (one < other ? -1 : 1));
  else if (lane >= 0) rows.sort(([, one], [, other]) => share(other, lane) - share(one, lane));
  else rows.sort(([one, a], [other, b]) => b[5] - a[5] || (one < other ? -1 : 1));
  return rows;
});

/** @param {number[]} row @param {number} lane */
function share(row, lane) {
  const [used, held, promised, limit] = cell(row, lane);
  return limit > 0 ? (used + held + promised) / limit : limit === 0 && used + held > 0 ? 1 : -1;
}

const totals = computed(() => {
  const field = { group: 0, type: 1, zone: 2 }[by.value];
  const labels = value("labels") || [];
  const lanes = value("lanes") || [];
  /** @type {Map<string, {nodes: number, sums: number[][]}>} */
  const found = new Map();
  if (field === undefined) return found;
  for (const [, row] of shown.value) {
    const name = labels[row[field]];
    let total = found.get(name);
    if (!total) found.set(name, total = { nodes: 0, sums: lanes.map(() => [0, 0, 0, -3]) });
    total.nodes += 1;
    lanes.forEach((_, number) => {
      const [used, held, promised, limit] = cell(row, number);
      const sum = total.sums[number];
      if (limit === -3) return;
      sum[0] += used; sum[1] += held; sum[2] += promised;
      if (limit >= 0) sum[3] = Math.max(sum[3], 0) + limit;
      else if (sum[3] < 0) sum[3] = limit;
    });
  }
  return new Map([...found].sort(([one], [other]) => (one < other ? -1 : 1)));
});

/** How a share is to be looked at. @param {number} thousandths */
function level(thousandths) {
  return thousandths > 1000 ? "over" : thousandths >= 1000 ? "full" : thousandths >= 850 ? "near" : "";
}

export function Slots() {
  const lanes = value("lanes");
  const rows = shown.value;
  const all = table("nodes").size;
  return html`<section aria-labelledby="view">
    <div class="bar-of-tools">
      <h2 id="view">Slots</h2>
      <label>Totals by <select value=${by.value} onChange=${change("by")}>
        ${["group", "type", "zone", "none"].map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
      <label>Sort by <select value=${sort.value} onChange=${change("sort")}>
        <option value="fullest">fullest lane</option><option value="name">name</option>
        ${lanes.map((lane) => html`<option value=${lane.id}>${clean(lane.name)}</option>`)}</select></label>
      <label>Only <input type="search" value=${wanted.value} placeholder="node, group, type, zone"
        onInput=${change("q")} /></label>
      <span class="soft">${rows.length === all ? count(all) : `${count(rows.length)} of ${count(all)}`} nodes</span>
    </div>
    <${Legend} />
    ${by.value !== "none" && totals.value.size > 0 && html`<${Totals} />`}
    ${rows.length ? html`<${Rows} rows=${rows} lanes=${lanes} />`
      : html`<${Nothing}>${all ? "No node matches." : "There are no nodes."}</${Nothing}>`}
  </section>`;
}

/** @param {string} name */
function change(name) {
  return (/** @type {any} */ event) => set(name, event.target.value);
}

function Totals() {
  const lanes = value("lanes");
  return html`<div class="grid totals" role="table" aria-label=${`Totals by ${by.value}`} style=${columns(lanes.length)}>
    <${Header} first=${by.value} lanes=${lanes} />
    ${[...totals.value].slice(0, 60).map(([name, total]) => html`<div class="row" role="row" key=${name}>
      <div class="who" role="rowheader"><span class="name"><${Name} name=${name || `no ${by.value}`} /></span>
        <span class="soft">${count(total.nodes)} ${total.nodes === 1 ? "node" : "nodes"}</span></div>
      ${lanes.map((lane, number) => html`<${Lane} key=${lane.id} cell=${total.sums[number]} unit=${lane.unit}
        label=${narrow.value ? lane.name : ""} />`)}
    </div>`)}
  </div>`;
}

/** @param {number} lanes */
function columns(lanes) {
  return { "--lanes": `${lanes}` };
}

/** @param {{first: string, lanes: any[]}} props */
function Header({ first, lanes }) {
  return html`<div class="row head" role="row"><div class="who" role="columnheader">${first}</div>
    ${lanes.map((lane) => html`<div class="lane" role="columnheader" key=${lane.id}><${Name} name=${lane.name} /></div>`)}</div>`;
}

/** @param {{rows: [string, number[]][], lanes: any[]}} props */
function Rows({ rows, lanes }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const top = useRef(0);
  useLayoutEffect(() => {
    if (box.current) top.current = box.current.getBoundingClientRect().top + window.scrollY;
  });
  const height = narrow.value ? 50 + 29 * Math.ceil(lanes.length / 2) : 42;
  const first = Math.max(0, Math.floor((scroll.value.top - top.current) / height) - 6);
  const many = printing.value ? PRINTED : Math.ceil(scroll.value.height / height) + 12;
  const from = printing.value ? 0 : Math.min(first, Math.max(0, rows.length - many));
  const part = rows.slice(from, from + many);
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const here = /** @type {HTMLElement} */ (event.target).closest("[data-at]");
    if (!step || !here || !box.current) return;
    const at = Number(here.getAttribute("data-at")) + step;
    if (at < 0 || at >= rows.length) return;
    event.preventDefault();
    focusOn(box.current, at, top.current + at * height, height);
  };
  return html`<div class="grid nodes" role="table" aria-label="Nodes" aria-rowcount=${rows.length + 1}
      style=${columns(lanes.length)} onKeyDown=${keys}>
    <${Header} first="node" lanes=${lanes} />
    <div class="all" role="rowgroup" ref=${box} style=${printing.value ? {} : { height: `${rows.length * height}px` }}>
      ${part.map(([name, row], number) => html`<${Row} key=${name} name=${name} row=${row} lanes=${lanes}
        at=${from + number} top=${printing.value ? -1 : (from + number) * height} height=${height} />`)}
    </div>
    ${printing.value && rows.length > PRINTED && html`<p>and ${count(rows.length - PRINTED)} more nodes</p>`}
  </div>`;
}

/** @param {HTMLElement} box @param {number} at @param {number} top @param {number} height */
function focusOn(box, at, top, height) {
  const seen = box.querySelector(`[data-at="${at}"] a`);
  const above = top - window.scrollY, below = above + height - window.innerHeight;
  if (above < 130) window.scrollBy(0, above - 130);
  else if (below > 0) window.scrollBy(0, below + 8);
  if (seen) /** @type {HTMLElement} */ (seen).focus({ preventScroll: true });
  else requestAnimationFrame(() => requestAnimationFrame(() => {
    const later = box.querySelector(`[data-at="${at}"] a`);
    if (later) /** @type {HTMLElement} */ (later).focus({ preventScroll: true });
  }));
}

/** @param {{name: string, row: number[], lanes: any[], at: number, top: number, height: number}} props */
function Row({ name, row, lanes, at, top, height }) {
  const [group, type, zone] = place(row);
  const where = [CONDITIONS[row[3]], group, type, zone].filter(Boolean).map(clean).join(" · ");
  const style = top < 0 ? {} : { transform: `translateY(${top}px)`, height: `${height}px` };
  return html`<div class=${`row ${level(row[5])}`} role="row" aria-rowindex=${at + 2} data-at=${at} style=${style}>
    <div class="who" role="rowheader">
      <a class="name" href=${link("slots", name, route.value.settings)}><${Name} name=${name} /></a>
      <span class=${`soft${row[3] ? " amiss" : ""}`} title=${where}>${where}</span>
    </div>
    ${lanes.map((lane, number) => html`<${Lane} key=${lane.id} cell=${cell(row, number)} unit=${lane.unit}
      binds=${row[4] === number && row[5] > 0} label=${narrow.value ? lane.name : ""} />`)}
  </div>`;
}

effect(() => { route.value; soon(); });
