// @ts-check
/** The views beside slots and timeline: pending, plan, going away, limits, what-if, and one thing in detail. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Cards, Lane, Name, Nothing, Table, age, clean, count, html, price } from "./parts.js";
import { ask, link, route, set, table, value } from "./state.js";
import { cell, place } from "./slots.js";

/** @param {{pod: string}} props */
function Pod({ pod }) {
  return html`<a href=${link("pod", pod)}><${Name} name=${pod} /></a>`;
}

/** @param {{node: string}} props */
function Node({ node }) {
  return html`<a href=${link("slots", node)}><${Name} name=${node} /></a>`;
}

/** @param {string} number @param {string} [noun] */
const s = (number, noun = "pod") => `${count(Number(number))} ${noun}${Number(number) === 1 ? "" : "s"}`;

/** @type {{[fate: string]: string}} */
const FATES = { placed: "fits", bought: "in the plan", stuck: "left out", waits: "waits" };

export function Pending() {
  const rows = [...table("pending").values()].sort((one, other) => other.count - one.count);
  return html`<section aria-labelledby="view"><div class="bar-of-tools"><h2 id="view">Pending</h2>
      <span class="soft">${s(String(value("head").pending))} wait for a node</span></div>
    ${rows.length === 0 && html`<${Nothing}>No pod waits for a node.</${Nothing}>`}
    ${rows.slice(0, 200).map((row) => html`<${Waits} key=${row.pods[0]} row=${row} />`)}
    ${rows.length > 200 && html`<p class="soft">and ${count(rows.length - 200)} more kinds of pods</p>`}</section>`;
}

/** @param {{row: any, alone?: boolean}} props */
function Waits({ row, alone = false }) {
  return html`<article class="row-of-wait">
    ${!alone && html`<h3><${Pod} pod=${row.pods[0]} />${row.count > 1 && html`<span class="soft">and ${count(row.count - 1)} more like it</span>`}
      <span class=${`pill ${row.fate}`}>${FATES[row.fate] || row.fate}</span></h3>`}
    <p>${clean(row.reason)}</p>
    <dl>
      ${row.refusals.length > 0 && html`<dt>nodes refuse</dt><dd><ul class="refusals">${row.refusals.slice(0, 8).map((one) => html`
        <li><b>${count(one.nodes)}</b>${clean(one.reason)}</li>`)}</ul></dd>`}
      ${row.cure && html`<dt>smallest cure</dt><dd>${clean(row.cure)}</dd>`}
      ${row.bought && html`<dt>the plan buys</dt><dd>${clean(row.bought)}</dd>`}
      ${row.since && html`<dt>waits for</dt><dd>${age(row.since, value("head").time)}</dd>`}
    </dl></article>`;
}

/** @param {{plan: any, decides: boolean}} props */
export function PlanOf({ plan, decides }) {
  const gap = plan.gap ? `, ${count(100 * plan.gap, 1)} % above it` : ", which is the least there can be";
  return html`<${Cards} facts=${[
    [decides ? "nodes bought" : "nodes to buy", count(plan.nodes)],
    ["for pods", count(plan.pods)],
    ["fit on nodes there are", count(plan.onExisting)],
    ["left out", count(plan.leftOut)],
    ["price", price(plan.costPerHour)],
  ]} />
  ${plan.nodes > 0 && html`<p class="soft">No plan for the same pods buys fewer than ${s(plan.boundNodes, "node")}${
    plan.boundCost !== null ? ` or costs less than ${price(plan.boundCost)}` : ""}${gap}.${plan.partial ? " Time ran out: the plan is partial." : ""}</p>`}
  ${plan.purchases.length > 0 && html`<div class="panel"><${Table} label="What is bought" numbers=${[1, 2, 3, 4]}
    head=${["group", "nodes", "size then", "price", "pods", "fullest of", "why this group"]}
    rows=${plan.purchases.map((one) => [html`<${Name} name=${one.group} />`, `+${count(one.nodes)}`,
      one.maxSize ? `${count(one.size)} of ${count(one.maxSize)}` : count(one.size), price(one.costPerHour),
      count(one.pods), clean(one.binding), clean(one.reason)])} /></div>`}
  ${plan.notHelped.length > 0 && html`<div class="panel"><h3>Left out</h3><${Table} label="Pods left out" head=${["pod", "why"]}
    rows=${plan.notHelped.map((one) => [html`<${Pod} pod=${one.pod} />`,
      `${clean(one.why)}${one.neverFits ? " It fits no node of any group, however empty." : ""}`])} />
    ${plan.leftOut > plan.notHelped.length && html`<p class="soft">and ${count(plan.leftOut - plan.notHelped.length)} more</p>`}</div>`}
  ${plan.warnings.length > 0 && html`<div class="panel"><h3>Warnings</h3><ul>${plan.warnings.map((one) => html`<li>${clean(one)}</li>`)}</ul></div>`}`;
}

export function Plan() {
  const plan = value("plan"), head = value("head");
  return html`<section aria-labelledby="view"><h2 id="view">Plan</h2>
    ${!plan && html`<${Nothing}>Nothing is decided yet${head.held ? `: ${clean(head.held)}` : "."}</${Nothing}>`}
    ${plan && plan.nodes + plan.onExisting + plan.leftOut === 0 && html`<${Nothing}>No pod waits: nothing is bought.</${Nothing}>`}
    ${plan && plan.nodes + plan.onExisting + plan.leftOut > 0 && html`<${PlanOf} plan=${plan} decides=${head.decides} />`}
    ${plan && plan.differences.length > 0 && html`<div class="panel"><h3>Other than in the plan before</h3>
      <ul>${plan.differences.map((one) => html`<li>${clean(one)}</li>`)}</ul></div>`}</section>`;
}

const REMOVALS = [["going", "on its way out"], ["goes", "can go"], ["waits", "unneeded, waits"], ["blocked", "kept"], ["needed", "needed"], ["notOurs", "in no group"]];

/** What consolidation does in which wave, and what is saved. @param {{told: import("./documents").ConsolidationSummary}} props */
function Consolidation({ told }) {
  const unit = told.unit === "price" ? "an hour" : told.unit;
  return html`<h3>Consolidation</h3>
    <p>${told.waves.length ? html`${told.before} ${unit} becomes ${told.after} (at least ${told.bound}): saves ${told.savesPerHour}. The moves cost ${told.costOfMoves}.
        ${told.buys.length > 0 && ` First bought: ${clean(told.buys.join(", "))}.`}` : "Nothing is worth replacing now."}
      ${told.underWay && ` Under way: ${clean(told.underWay)}.`}${told.held && ` Held: ${clean(told.held)}.`}</p>
    ${told.waves.length > 0 && html`<div class="panel"><${Table} label="Waves of the consolidation" numbers=${[0, 1, 2, 4]} head=${["wave", "pods that move", "volumes that detach", "nodes that go", "their price /h"]}
      rows=${told.waves.map((one) => [one.wave, count(one.moves), count(one.detach), clean(one.nodes.join(", ")) || "none yet", one.price])} /></div>`}
    ${told.missed.length > 0 && html`<p class="soft">Not saved: ${clean(told.missed.join("; "))}.</p>`}`;
}

export function GoingAway() {
  const removal = value("removal"), all = [...table("removals")];
  const only = route.value.settings.get("fate") || "";
  const order = REMOVALS.map(([fate]) => fate);
  const rows = all.filter(([, row]) => !only || row.fate === only)
    .sort(([one, a], [other, b]) => order.indexOf(a.fate) - order.indexOf(b.fate) || (a.wave || 0) - (b.wave || 0) || (one < other ? -1 : 1));
  /** @type {{[fate: string]: number}} */
  const counts = {};
  for (const [, row] of all) counts[row.fate] = (counts[row.fate] || 0) + 1;
  return html`<section aria-labelledby="view"><div class="bar-of-tools"><h2 id="view">Going away</h2>
      ${all.length > 0 && html`<label>Show <select value=${only} onChange=${(/** @type {any} */ event) => set("fate", event.target.value)}>
        <option value="">all ${count(all.length)} nodes</option>
        ${REMOVALS.filter(([fate]) => counts[fate]).map(([fate, name]) => html`<option value=${fate}>${name}: ${count(counts[fate])}</option>`)}</select></label>`}</div>
    ${!removal.told && html`<${Nothing}>Nobody looks at which nodes could go: there are no node groups.</${Nothing}>`}
    ${removal.told && all.length === 0 && html`<${Nothing}>The autoscaler does not look at which nodes could go: scaleDownEnabled is off.</${Nothing}>`}
    ${all.length > 0 && html`<${Cards} facts=${[["on their way out", count(removal.going)], ["can go", count(removal.goes)],
      ["waves", count(removal.waves)], ["saves", price(removal.savesPerHour)]]} />
      <p class="soft">${removal.enabled ? "Nodes are given back." : "Nothing is removed: this is what could go, taking no account of how long a node has been unneeded."}
        ${removal.held && ` Held: ${clean(removal.held)}.`}</p>
      ${removal.consolidation && html`<${Consolidation} told=${removal.consolidation} />`}
      <div class="panel"><${Table} label="Nodes and what becomes of them" numbers=${[2, 3, 4]} head=${["node", "fate", "wave", "saves /h", "filled", "why", "where its pods go, or what would let it go"]}
        rows=${rows.slice(0, 300).map(([name, row]) => [html`<${Node} node=${name} />`,
          html`<span class=${`pill ${row.fate}`}>${REMOVALS.find(([fate]) => fate === row.fate)?.[1]}</span>`,
          row.wave ?? "", row.saves, `${count(row.fill / 10)} %`, clean(row.why), clean(row.moves.length ? row.moves.join("; ") : row.frees)])} />
        ${rows.length > 300 && html`<p class="soft">and ${count(rows.length - 300)} more: choose what to show above</p>`}</div>`}</section>`;
}

export function Limits() {
  const rows = [...table("limits").values()];
  const differing = rows.filter((row) => row.disagree).length;
  const number = (/** @type {number | null} */ one) => (one === null ? "" : one === -2 ? "unlimited" : count(one));
  return html`<section aria-labelledby="view"><div class="bar-of-tools"><h2 id="view">Limits</h2>
      <span class="soft">${differing ? `${s(String(differing), "line")} where sources disagree` : "all sources agree"}</span></div>
    ${rows.length === 0 && html`<${Nothing}>No node lists a driver.</${Nothing}>`}
    ${rows.length > 0 && html`<div class="panel"><${Table} label="Attach limits by source" numbers=${[3, 4, 5, 6, 7, 8, 9]}
      head=${["group", "type", "driver", "nodes", "CSINode", "catalogue", "agent", "learned", "refused at", "next node", "said by", ""]}
      rows=${rows.sort((one, other) => Number(other.disagree) - Number(one.disagree)).slice(0, 300).map((row) => [
        html`<${Name} name=${row.group || "–"} />`, html`<${Name} name=${row.type || "–"} />`, html`<${Name} name=${row.driver} />`, count(row.nodes),
        row.csinode.map(([limit, nodes]) => (row.csinode.length > 1 ? `${number(limit)} (${count(nodes)})` : number(limit))).join(", "),
        number(row.catalogue), number(row.agent), number(row.learned), number(row.ceiling), row.source && row.source !== "unknown" ? row.next === null ? "unlimited" : number(row.next) : "",
        row.source, row.disagree ? html`<span class="pill waits">differ</span>` : ""])} /></div>`}</section>`;
}

/** What is supposed, by kind and name. */
const supposed = signal(/** @type {{limits: any, maxSizes: any, replicas: any}} */ ({ limits: {}, maxSizes: {}, replicas: {} }));
const answer = signal(/** @type {any} */ (null));
const thinking = signal(false);
const workload = signal("");
let pending = 0;

/** @param {"limits" | "maxSizes" | "replicas"} kind @param {string} name @param {number} to */
function suppose(kind, name, to) {
  supposed.value = { ...supposed.value, [kind]: { ...supposed.value[kind], [name]: to } };
  clearTimeout(pending);
  pending = setTimeout(think, 120);
}

async function think() {
  const asked = supposed.value;
  thinking.value = true;
  const began = performance.now();
  try {
    const told = await ask("what-if", asked);
    if (asked === supposed.value) answer.value = { ...told, took: performance.now() - began };
  } catch (error) {
    if (asked === supposed.value) answer.value = { error: /** @type {Error} */ (error).message };
  }
  if (asked === supposed.value) thinking.value = false;
}

function reset() {
  supposed.value = { limits: {}, maxSizes: {}, replicas: {} };
  answer.value = null;
}

/** @param {{kind: "limits" | "maxSizes" | "replicas", name: string, now: number | null, most: number, label: string}} props */
function Knob({ kind, name, now, most, label }) {
  const moved = name in supposed.value[kind];
  const to = moved ? supposed.value[kind][name] : now;
  const id = `${kind}-${name}`;
  return html`<div class=${`knob${moved ? " moved" : ""}`}><label for=${id} title=${clean(label)}>${clean(label)}</label>
    <output for=${id}>${to === null ? "no limit" : count(to)}${moved && to !== now ? ` (now ${now === null ? "none" : count(now)})` : ""}</output>
    <input id=${id} type="range" min="0" max=${Math.max(most, to || 0)} value=${to === null ? most : to}
      onInput=${(/** @type {any} */ event) => suppose(kind, name, Number(event.target.value))} /></div>`;
}

export function WhatIf() {
  const lanes = value("lanes").map((lane, number) => ({ lane, number })).filter(({ lane }) => lane.kind === "driver");
  const rows = [...table("nodes").values()];
  const usual = (/** @type {number} */ number) => {
    const most = rows.reduce((one, row) => Math.max(one, cell(row, number)[3]), -1);
    return most < 0 ? null : most;
  };
  const workloads = value("workloads");
  const chosen = workload.value || workloads[0] || "";
  const known = useAnswer("pod", { pod: chosen }, chosen);
  const replicas = (known && known.siblings) || 1;
  const told = answer.value;
  return html`<section aria-labelledby="view"><div class="bar-of-tools"><h2 id="view">What if</h2>
      <button onClick=${reset}>As it is</button><span class="soft" role="status">${thinking.value ? "thinking …" : told && told.took ? `answered in ${count(told.took)} ms` : "on a copy: nothing is changed"}</span></div>
    <div class="panel"><h3>Attach limit of a driver</h3><div class="knobs">
      ${lanes.length === 0 && html`<p class="soft">No node lists a driver.</p>`}
      ${lanes.map(({ lane, number }) => html`<${Knob} key=${lane.id} kind="limits" name=${lane.name} label=${lane.name} now=${usual(number)} most=${Math.max(32, 2 * (usual(number) || 0))} />`)}</div></div>
    <div class="panel"><h3>Largest size of a group</h3><div class="knobs">
      ${table("groups").size === 0 && html`<p class="soft">There are no node groups.</p>`}
      ${[...table("groups")].slice(0, 40).map(([name, group]) => html`<${Knob} key=${name} kind="maxSizes" name=${name} label=${`${name}, ${s(String(group.size), "node")}`} now=${group.maxSize} most=${Math.min(1000, Math.max(10, 2 * group.maxSize))} />`)}</div></div>
    <div class="panel"><h3>Replicas of a workload</h3><div class="knobs">
      ${workloads.length === 0 ? html`<p class="soft">No workload waits. A pod's page has its replicas as well.</p>` : html`
        <div class="knob"><label for="workload">Workload of</label><select id="workload" value=${chosen} onChange=${(/** @type {any} */ event) => { workload.value = event.target.value; }}>
          ${workloads.map((one) => html`<option value=${one}>${clean(one)}</option>`)}</select></div>
        <${Knob} kind="replicas" name=${chosen} label=${`replicas of ${chosen}`} now=${replicas} most=${Math.max(50, 3 * replicas)} />`}</div></div>
    ${told && told.error && html`<p class="panel worse" role="alert">${clean(told.error)}</p>`}
    ${told && told.plan && html`<div class="panel"><h3>Against the plan of now</h3>${told.differences.length ? html`<ul>${told.differences.map((one) => html`<li>${clean(one)}</li>`)}</ul>` : html`<p>The same is bought, for the same number of pods.</p>`}</div>
      <${PlanOf} plan=${told.plan} decides=${false} />`}</section>`;
}

/** Something asked of the server when a page is opened, and again when what it is about changes. */
function useAnswer(/** @type {string} */ name, /** @type {object} */ question, /** @type {string} */ key) {
  const found = useRef(signal(/** @type {any} */ (null))).current;
  useEffect(() => {
    let here = true;
    found.value = null;
    if (!key) return undefined;
    ask(name, question).then((told) => { if (here) found.value = told; }, (error) => { if (here) found.value = { error: error.message }; });
    return () => { here = false; };
  }, [name, key]);
  return found.value;
}

/** A panel beside the view; Escape closes it. @param {{title: any, back: string, children?: any, label: string}} props */
export function Detail({ title, back, label, children }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current?.focus();
    /** @param {KeyboardEvent} event */
    const close = (event) => { if (event.key === "Escape") location.hash = back; };
    addEventListener("keydown", close);
    return () => { removeEventListener("keydown", close); if (before?.isConnected) before.focus({ preventScroll: true }); };
  }, [label]);
  return html`<aside class="detail" aria-label=${clean(label)} tabindex="-1" ref=${box}>
    <a class="close" href=${back} aria-label="Close">✕</a><h2>${title}</h2>${children}</aside>`;
}

/** @param {{name: string}} props */
export function NodeDetail({ name }) {
  const row = table("nodes").get(name), going = table("removals").get(name);
  const told = useAnswer("node", { name }, name);
  const back = link("slots", "", route.value.settings);
  if (!row) return html`<${Detail} title=${html`<${Name} name=${name} />`} label=${name} back=${back}><p>There is no such node now.</p></${Detail}>`;
  const [group, type, zone] = place(row);
  return html`<${Detail} title=${html`<${Name} name=${name} />`} label=${`Node ${name}`} back=${back}>
    <p class="soft">${[group, type, zone].filter(Boolean).map(clean).join(" · ")}</p>
    <h3>Lanes</h3><div class="lanes" role="table" aria-label="Lanes">${value("lanes").map((lane, number) => html`<div role="row" key=${lane.id}><${Lane} cell=${cell(row, number)} unit=${lane.unit} label=${lane.name} binds=${row[4] === number} /></div>`)}</div>
    ${going && html`<h3>Going away</h3><p>${clean(going.why)}</p>${going.frees && html`<p class="soft">To let it go: ${clean(going.frees)}</p>`}`}
    ${told && told.held && told.held.length > 0 && html`<h3>Held without a pod</h3><ul>${told.held.map((one) => html`<li><${Name} name=${one.volume} /> <span class="soft">${clean(one.driver)}</span></li>`)}</ul>`}
    ${told && told.error && html`<p class="worse">${clean(told.error)}</p>`}
    ${told && told.pods && html`<h3>${s(told.count)}</h3><ul>${told.pods.map((one) => html`<li><${Pod} pod=${one.pod} />${one.volumes.length > 0 && html` <span class="soft">${s(one.volumes.length, "volume")}</span>`}</li>`)}</ul>
      ${told.count > told.pods.length && html`<p class="soft">and ${count(told.count - told.pods.length)} more</p>`}`}
    ${told && told.taints && told.taints.length > 0 && html`<h3>Taints</h3><ul>${told.taints.map((one) => html`<li>${clean(one)}</li>`)}</ul>`}
  </${Detail}>`;
}

/** @param {{pod: string}} props */
export function PodPage({ pod }) {
  const told = useAnswer("pod", { pod }, pod);
  return html`<section aria-labelledby="view"><h2 id="view"><${Name} name=${pod} /></h2>
    ${!told && html`<p class="soft">looking …</p>`}
    ${told && told.error && html`<p class="panel worse" role="alert">${clean(told.error)}</p>`}
    ${told && !told.error && html`
      <p>${told.node ? html`On node <${Node} node=${told.node} />.` : "Waits for a node."} <span class="soft">In a terminal: tonnage why ${clean(pod)}</span></p>
      ${told.waits && html`<${Waits} row=${told.waits} alone />`}
      ${told.volumes.length > 0 && html`<div class="panel"><h3>Volumes</h3><${Table} label="Volumes" head=${["volume", "claim", "bound to", "class"]}
        rows=${told.volumes.map((one) => [clean(one.name), clean(one.claim), clean(one.volume || "not bound yet"), clean(one.class)])} /></div>`}
      <div class="panel"><h3>What was decided about it</h3>${told.why.length ? html`<${Table} label="Decisions about the pod" head=${["when", "what"]}
        rows=${told.why.map((one) => [clean(one.time.slice(0, 19)), clean(one.text)])} />` : html`<p class="soft">No decision that is kept speaks of it.</p>`}</div>
      <div class="panel"><h3>What if there were more</h3><div class="knobs"><${Knob} kind="replicas" name=${pod} label="replicas of its workload" now=${told.siblings} most=${Math.max(50, 3 * told.siblings)} /></div>
        ${pod in supposed.value.replicas && html`<p><a href=${link("what-if")}>The plan then</a></p>`}</div>`}</section>`;
}

/** @param {{id: string}} props */
export function DecisionDetail({ id }) {
  const told = useAnswer("decision", { id }, id);
  return html`<${Detail} title="Decision" label="Decision" back=${link("timeline", "", route.value.settings)}>
    ${told && told.error && html`<p class="worse">${clean(told.error)}</p>`}
    ${told && told.plan && html`<p class="soft">${clean(told.time)}</p>
      ${told.done.map((one) => html`<p>${one.deed === "increase" ? "Asked for" : "Gave back"} ${s(one.nodes, "node")} of <b>${clean(one.group)}</b>${one.error ? html`: <span class="worse">${clean(one.error)}</span>` : "."} ${clean(one.reason)}</p>`)}
      <h3>Why</h3><ul>${told.steps.map((step) => html`<li><b>${clean(step.chosen)}</b> for ${s(step.count)}${step.reason ? `: ${clean(step.reason)}` : ""}</li>`)}
      ${told.plan.notHelped.map((one) => html`<li>left out <${Pod} pod=${one.pod} />: ${clean(one.why)}</li>`)}</ul>
      <h3>Pods</h3><ul>${told.steps.flatMap((step) => step.pods).map((pod) => html`<li><${Pod} pod=${pod} /></li>`)}</ul>`}
  </${Detail}>`;
}
