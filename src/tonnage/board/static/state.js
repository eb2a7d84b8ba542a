// @ts-check
/** What the server tells, kept up to date: the whole state once, then differences as they come. */
import { batch, computed, signal } from "@preact/signals";

/** @typedef {import("./documents").Tables} Tables */
/** @typedef {import("./documents").Values} Values */

/** @type {{[name: string]: Map<string, any>}} */
const kept = {};
/** @type {{[name: string]: import("@preact/signals").Signal<number>}} */
const versions = {};
/** @type {{[name: string]: import("@preact/signals").Signal<any>}} */
const values = {};

/** Whether the server is there: "loading", "live", "lost" or "still" for a cluster in a file. */
export const connection = signal("loading");
export const route = signal(parse(location.hash));
export const narrow = media("(max-width: 640px)");
export const printing = media("print");
export const dark = media("(prefers-color-scheme: dark)");

/** @param {string} query */
function media(query) {
  const asked = matchMedia(query);
  const found = signal(asked.matches);
  asked.addEventListener("change", () => { found.value = asked.matches; });
  return found;
}

/**
 * The rows of a table; whoever reads them is drawn again when they change.
 * @template {keyof Tables} Name
 * @param {Name} name
 * @returns {Map<string, Tables[Name]>}
 */
export function table(name) {
  return versions[name].value >= 0 ? kept[name] : kept[name];
}

/**
 * @template {keyof Values} Name
 * @param {Name} name
 * @returns {Values[Name]}
 */
export function value(name) {
  return values[name].value;
}

for (const name of ["nodes", "pending", "removals", "limits", "samples", "decisions", "groups"]) {
  kept[name] = new Map();
  versions[name] = signal(0);
}
for (const name of ["head", "lanes", "labels", "plan", "removal", "workloads"]) values[name] = signal(null);

export const ready = computed(() => values.head.value !== null);

/** @param {any} state */
function take(state) {
  batch(() => {
    for (const [name, rows] of Object.entries(state.tables)) {
      kept[name] = new Map(Object.entries(rows));
      versions[name].value += 1;
    }
    for (const [name, told] of Object.entries(state.values)) values[name].value = told;
  });
}

/** @param {any[][]} changes */
function apply(changes) {
  batch(() => {
    const touched = new Set();
    for (const [name, key, row] of changes) {
      if (name === "") values[key].value = row;
      else {
        if (row === undefined) kept[name].delete(key);
        else kept[name].set(key, row);
        touched.add(name);
      }
    }
    for (const name of touched) versions[name].value += 1;
  });
}

/** @type {any[][]} */
let waiting = [];

export async function follow() {
  try {
    const answer = await fetch("/api/state");
    if (!answer.ok) throw new Error(await answer.text());
    const state = await answer.json();
    take(state);
    listen(state.revision);
  } catch (error) {
    connection.value = "lost";
    setTimeout(follow, 2000);
  }
}

/** @param {number} revision */
function listen(revision) {
  waiting = [];
  const stream = new EventSource(`/api/changes?since=${revision}`);
  stream.onopen = () => { connection.value = value("head").mode === "file" ? "still" : "live"; };
  stream.onmessage = (event) => {
    const part = JSON.parse(event.data);
    waiting.push(...part.changes);
    if (part.more) return;
    apply(waiting);
    waiting = [];
  };
  stream.addEventListener("again", () => { stream.close(); follow(); });
  stream.onerror = () => {
    connection.value = "lost";
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

/**
 * Ask the server something; while a decision is being made it is asked again.
 * @param {string} name
 * @param {object} question
 * @returns {Promise<any>}
 */
export async function ask(name, question) {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await fetch(`/api/${name}`, { method: "POST", body: JSON.stringify(question) });
    const told = await answer.json();
    if (answer.ok) return told;
    const again = answer.status === 429 || /ask again/.test(told.Error);
    if (!again || attempt >= 20) throw new Error(told.Error);
    await new Promise((done) => setTimeout(done, 250));
  }
}

/**
 * `#/slots/NAME?sort=name` as view, subject and settings.
 * @param {string} hash
 */
function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...subject] = path.split("/");
  return {
    view: view || "slots",
    subject: decodeURIComponent(subject.join("/")),
    settings: new URLSearchParams(query || ""),
  };
}

/**
 * @param {string} view
 * @param {string} [subject]
 * @param {URLSearchParams} [settings]
 */
export function link(view, subject = "", settings) {
  const path = subject ? `${view}/${encodeURIComponent(subject)}` : view;
  const query = settings && settings.toString();
  return query ? `#/${path}?${query}` : `#/${path}`;
}

/**
 * Change a setting of the view that is shown; it is part of its link.
 * @param {string} name
 * @param {string} to
 */
export function set(name, to) {
  const settings = new URLSearchParams(route.value.settings);
  if (to) settings.set(name, to);
  else settings.delete(name);
  history.replaceState(null, "", link(route.value.view, route.value.subject, settings));
  route.value = parse(location.hash);
}

addEventListener("hashchange", () => { route.value = parse(location.hash); });
