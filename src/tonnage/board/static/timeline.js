// @ts-check
/** Timeline: nodes by group, pods that wait, slots, cost; decisions as marks that can be opened. */
import { useEffect, useRef } from "preact/hooks";
import { Name, Nothing, Table, clean, count, html } from "./parts.js";
import { dark, link, narrow, route, table } from "./state.js";

const COLOURS = ["first", "ready", "promised", "held", "stuck", "starting", "used", "comingup"];

/** @param {{title: string, unit: string, times: number[], series: any[], marks: any[], stacked?: boolean}} props */
function Chart({ title, unit, times, series, marks, stacked = false }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(/** @type {any} */ (null));
  const told = `${title}: ${series.map((one) => `${one.name} ${count(one.values.at(-1) || 0, 2)}`).join(", ")}`;
  useEffect(() => {
    if (!box.current) return undefined;
    drawn.current = window.tonnageChart(box.current, { times, series, marks, unit, stacked,
      opened: (/** @type {string} */ id) => { location.hash = link("timeline", id); } });
    return () => drawn.current.remove();
  }, [times, series, dark.value, narrow.value]);
  return html`<figure class="panel"><h3>${title}</h3>
    <p class="legend">${series.map((one) => html`<span class="entry"><span class=${`swatch c-${one.colour} ${one.shape}`}></span><${Name} name=${one.name} /></span>`)}
      ${marks.length > 0 && html`<span class="entry"><span class="swatch decided"></span>decision</span>`}</p>
    <div class="plotted" role="img" aria-label=${clean(told)} ref=${box}></div></figure>`;
}

export function Timeline() {
  const samples = [...table("samples").values()].sort((one, other) => one.at - other.at);
  const decisions = [...table("decisions")].sort(([, one], [, other]) => other.at - one.at);
  const times = samples.map((one) => one.at);
  const marks = decisions.map(([id, one]) => ({ id, at: one.at, text: one.text }));
  const names = (/** @type {(sample: any) => object} */ of) => [...new Set(samples.flatMap((one) => Object.keys(of(one))))].sort();
  const line = (/** @type {string} */ name, /** @type {string} */ colour, /** @type {(sample: any) => number | null} */ of, shape = "line") => ({ name, colour, shape, values: samples.map(of) });
  const groups = names((one) => one.groups).slice(0, 8).map((name, number) => line(name || "in no group", COLOURS[number % COLOURS.length], (one) => one.groups[name] ?? 0, "area"));
  const last = decisions.slice(0, 100).map(([id, one]) => [html`<a href=${link("timeline", id, route.value.settings)}>${new Date(one.at * 1000).toISOString().slice(0, 19).replace("T", " ")}</a>`,
    clean(one.text), one.leftOut ? count(one.leftOut) : "", one.failed ? html`<span class="pill stuck">failed</span>` : ""]);
  return html`<section aria-labelledby="view"><h2 id="view">Timeline</h2>
    ${samples.length < 2 && html`<${Nothing}>${samples.length ? "One moment so far; it grows while this runs." : "Nothing yet."}</${Nothing}>`}
    <div class="charts">
      <${Chart} title="Nodes by group" unit="nodes" times=${times} series=${groups} marks=${marks} stacked />
      <${Chart} title="Pods that wait" unit="pods" times=${times} marks=${marks} series=${[line("pending", "pending", (one) => one.pending, "area")]} />
      ${names((one) => one.slots).slice(0, 4).map((name) => html`<${Chart} key=${name} title=${`Slots of ${clean(name)}`} unit="slots" times=${times} marks=${marks}
        series=${[line("used and held", "taken", (one) => one.slots[name]?.[0] ?? 0, "area"), line("limit of all nodes", "limit", (one) => one.slots[name]?.[1] ?? 0, "limit")]} />`)}
      ${samples.some((one) => one.cost !== null) && html`<${Chart} title="Cost per hour" unit="" times=${times} marks=${marks} series=${[line("cost", "running", (one) => one.cost)]} />`}
    </div>
    <h3>Decisions</h3>
    ${decisions.length ? html`<div class="panel"><${Table} label="Decisions" numbers=${[2]} head=${["when", "what", "left out", ""]} rows=${last} /></div>` : html`<${Nothing}>Nothing was decided yet.</${Nothing}>`}</section>`;
}
