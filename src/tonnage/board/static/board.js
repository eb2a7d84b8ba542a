// @ts-check
/** The page: what stands above every view, the way between views, the search box, keys. */
import { effect, signal } from "@preact/signals";
import { h, render } from "preact";
import { useRef } from "preact/hooks";
import { Name, clean, count, html, price } from "./parts.js";
import { ask, connection, follow, link, ready, route, value } from "./state.js";
import { Slots } from "./slots.js";
import { Timeline } from "./timeline.js";
import { DecisionDetail, GoingAway, Limits, NodeDetail, Pending, Plan, PodPage, WhatIf } from "./views.js";

/** @type {[string, string, () => any][]} */
const VIEWS = [
  ["slots", "Slots", Slots],
  ["pending", "Pending", Pending],
  ["plan", "Plan", Plan],
  ["going-away", "Going away", GoingAway],
  ["timeline", "Timeline", Timeline],
  ["limits", "Limits", Limits],
  ["what-if", "What if", WhatIf],
];

/** @type {{[mode: string]: string}} */
const MODES = { live: "live", still: "from a file", lost: "no connection", loading: "loading" };

function Counts(/** @type {{view: string}} */ { view }) {
  const head = value("head"), plan = value("plan");
  if (view === "pending" && head.pending) return html`<b>${count(head.pending)}</b>`;
  if (view === "plan" && plan && plan.nodes) return html`<b>+${count(plan.nodes)}</b>`;
  return null;
}

const wanted = signal("");
const hits = signal(/** @type {any[] | null} */ (null));
let soon = 0;

/** @param {string} text */
function seek(text) {
  wanted.value = text;
  clearTimeout(soon);
  if (!text.trim()) { hits.value = null; return; }
  soon = setTimeout(async () => {
    try {
      const told = await ask("search", { q: text });
      if (wanted.value === text) hits.value = told.hits;
    } catch (error) {
      hits.value = [];
    }
  }, 120);
}

function Search() {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const leave = () => { wanted.value = ""; hits.value = null; };
  /** @param {KeyboardEvent} event */
  const keys = (event) => {
    const links = /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll(".hits a") || [])]);
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "Escape") { leave(); event.stopPropagation(); box.current?.querySelector("input")?.focus(); }
    else if (event.key === "ArrowDown" && links.length) { links[Math.min(at + 1, links.length - 1)].focus(); event.preventDefault(); }
    else if (event.key === "ArrowUp" && at >= 0) { (links[at - 1] || box.current?.querySelector("input"))?.focus(); event.preventDefault(); }
    else if (event.key === "Enter" && at < 0 && links.length) { links[0].click(); }
  };
  return html`<div class="search" role="search" ref=${box} onKeyDown=${keys}>
    <input type="search" id="search" aria-label="Search pods, nodes, volumes and drivers" placeholder="Search pod, node, volume, driver" autocomplete="off"
      value=${wanted.value} onInput=${(/** @type {any} */ event) => seek(event.target.value)} />
    ${hits.value && html`<ul class="hits" aria-label="Found">
      ${hits.value.length === 0 && html`<li class="soft">Nothing is called like that.</li>`}
      ${hits.value.map((hit) => html`<li key=${hit.kind + hit.name}><a href=${to(hit.link)} onClick=${leave}>
        <${Name} name=${hit.name} /><small>${hit.kind}: ${clean(hit.text)}</small></a></li>`)}</ul>`}</div>`;
}

/** A link as the server names it, `view/subject`. @param {string} path */
function to(path) {
  const [view, ...subject] = path.split("/");
  return link(view, subject.join("/"));
}

function Head() {
  const head = value("head");
  return html`<header class="top">
      <h1><img src="/static/icon.svg" alt="" /><${Name} name=${head.title} /></h1>
      <nav class="views" aria-label="Views">${VIEWS.map(([view, name]) => html`<a key=${view} href=${link(view)}
        aria-current=${route.value.view === view ? "page" : undefined}>${name}<${Counts} view=${view} /></a>`)}</nav>
      <${Search} /></header>
    <div class="facts-of-head"><span class=${`pill ${connection.value}`} role="status">${MODES[connection.value]}</span>
      <span><b>${count(head.nodes)}</b> nodes</span><span><b>${count(head.pods)}</b> pods</span>
      <span><b>${count(head.pending)}</b> pending</span>${head.costPerHour !== null && html`<span><b>${price(head.costPerHour)}</b></span>`}
      <span>as of ${head.time.slice(0, 19).replace("T", " ")} UTC</span></div>
    ${(head.held || head.notes.length > 0) && html`<div class="notes">${head.held && html`<b>Nothing is decided: ${clean(head.held)}</b>`}
      ${head.notes.length > 0 && html`<ul>${head.notes.slice(0, 6).map((one) => html`<li>${clean(one)}</li>`)}</ul>`}</div>`}`;
}

function Board() {
  if (!ready.value) return html`<main><p class="soft" role="status">${MODES[connection.value]} …</p></main>`;
  const { view, subject } = route.value;
  const found = VIEWS.find(([name]) => name === view);
  return html`<a class="skip" href="#content" onClick=${skip}>To the content</a><${Head} />
    <main id="content" tabindex="-1">
      ${view === "pod" ? html`<${PodPage} pod=${subject} key=${subject} />` : found ? h(found[2], {}) : html`<p>There is no such view.</p>`}
      <p class="hint">Keys: <kbd>1</kbd> to <kbd>7</kbd> views, <kbd>/</kbd> search, <kbd>↑</kbd> <kbd>↓</kbd> rows, <kbd>Esc</kbd> close.</p>
    </main>
    ${view === "slots" && subject && html`<${NodeDetail} name=${subject} key=${subject} />`}
    ${view === "timeline" && subject && html`<${DecisionDetail} id=${subject} key=${subject} />`}`;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

addEventListener("keydown", (event) => {
  const typing = /** @type {HTMLElement} */ (event.target).closest("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); document.getElementById("search")?.focus(); }
  const view = VIEWS[Number(event.key) - 1];
  if (view) location.hash = link(view[0]);
});

let last = "";
effect(() => {
  const { view } = route.value;
  const name = VIEWS.find(([one]) => one === view)?.[1] || route.value.subject;
  if (ready.value) document.title = `${clean(name)} · ${clean(value("head").title)} · Tonnage`;
  if (last && last !== view) scrollTo(0, 0);
  last = view;
});

follow();
render(h(Board, {}), /** @type {HTMLElement} */ (document.getElementById("board")));
