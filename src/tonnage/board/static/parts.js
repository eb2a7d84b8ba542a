// @ts-check
/** What every view is made of: names, lanes, legends, tables, and the words for numbers. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);

const UNKNOWN = -1, NO_LIMIT = -2, NOT_HERE = -3;
// What would move the cursor, turn the reading direction or be seen as nothing at all.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/**
 * A text of somebody else as it may be shown: characters that have no shape are written out.
 * @param {unknown} text
 */
export function clean(text) {
  return String(text).replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** @param {{name: string, [rest: string]: any}} props */
export function Name({ name, ...rest }) {
  return html`<bdi title=${clean(name)} ...${rest}>${clean(name)}</bdi>`;
}

/** @param {number} number @param {number} [digits] */
export function count(number, digits = 0) {
  return number.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** @param {number | null} perHour */
export function price(perHour) {
  return perHour === null ? "no price" : `${perHour.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 3 })} /h`;
}

/** @param {number} amount @param {string} unit */
export function written(amount, unit) {
  if (unit === "milli") return count(amount / 1000, amount < 10_000 ? 1 : 0);
  if (unit !== "MiB") return count(amount);
  if (amount >= 10 * 2 ** 20) return `${count(amount / 2 ** 20, 1)} Ti`;
  return amount >= 1024 ? `${count(amount / 1024, amount < 10_240 ? 1 : 0)} Gi` : `${count(amount)} Mi`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  return whole < 172_800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86_400)} d`;
}

/** @param {string} since RFC 3339 @param {string} now */
export function age(since, now) {
  return since ? duration((Date.parse(now) - Date.parse(since)) / 1000) : "";
}

export const KINDS = [
  ["taken", "used"],
  ["held", "held: attached, no pod uses it"],
  ["promised", "promised to a pod"],
  ["free", "free"],
  ["unknown", "limit unknown"],
  ["over", "over the limit"],
];

/** One legend for every lane there is, here and in reports. */
export function Legend() {
  return html`<p class="legend">${KINDS.map(([colour, name]) => html`
    <span class="entry" key=${colour}><span class=${`swatch c-${colour}`}></span>${name}</span>`)}</p>`;
}

/**
 * What of a lane is taken, in words.
 * @param {number[]} cell used, held, promised, limit
 * @param {string} unit
 */
export function spoken([used, held, promised, limit], unit) {
  const taken = used + held + promised;
  if (limit === NOT_HERE) return "";
  if (limit === UNKNOWN) return `${written(taken, unit)} of ?`;
  if (limit === NO_LIMIT) return `${written(taken, unit)} of ∞`;
  return `${written(taken, unit)} / ${written(limit, unit)}`;
}

/**
 * A lane: one bar of what is used, held, promised and free. Width is the whole of the limit, or of
 * what is taken where that is more.
 * @param {{cell: number[], unit: string, binds?: boolean, label?: string}} props
 */
export function Lane({ cell, unit, binds = false, label = "" }) {
  const [used, held, promised, limit] = cell;
  if (limit === NOT_HERE) return html`<div class="lane none" role="cell">
    ${label && html`<span class="of"><${Name} name=${label} /></span>`}<span class="amount">–</span></div>`;
  const taken = used + held + promised;
  const whole = limit >= 0 ? Math.max(limit, taken, 1) : Math.max(taken, 1) * 1.25;
  const part = (/** @type {number} */ amount) => ({ width: `${(100 * amount) / whole}%` });
  const over = limit >= 0 && taken > limit;
  const words = `${label ? `${label}: ` : ""}${written(used, unit)} used`
    + (held ? `, ${written(held, unit)} held` : "") + (promised ? `, ${written(promised, unit)} promised` : "")
    + (limit >= 0 ? `, of ${written(limit, unit)}` : limit === UNKNOWN ? ", limit unknown" : ", no limit");
  return html`<div class=${`lane${binds ? " binds" : ""}${over ? " over" : ""}`} role="cell" title=${words}>
    ${label && html`<span class="of"><${Name} name=${label} /></span>`}
    <span class=${`bar${limit < 0 ? " unbounded" : ""}`} aria-hidden="true">
      ${used > 0 && html`<i class=${over ? "c-over" : "c-taken"} style=${part(used)}></i>`}
      ${held > 0 && html`<i class="c-held" style=${part(held)}></i>`}
      ${promised > 0 && html`<i class="c-promised" style=${part(promised)}></i>`}
    </span>
    <span class="amount">${spoken(cell, unit)}</span>
  </div>`;
}

/**
 * @param {{head: any[], rows: any[][], label: string, numbers?: number[]}} props
 * `numbers` are the columns that are aligned to the right
 */
export function Table({ head, rows, label, numbers = [] }) {
  const side = (/** @type {number} */ column) => (numbers.includes(column) ? "number" : undefined);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head.map((cell, column) => html`<th scope="col" class=${side(column)}>${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell, column) => html`<td class=${side(column)}>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {{facts: [string, any][]}} props */
export function Cards({ facts }) {
  return html`<div class="cards">${facts.map(([name, fact]) => html`
    <div class="card" key=${name}><h3>${name}</h3><div class="value">${fact}</div></div>`)}</div>`;
}

/** @param {{children?: any}} props */
export function Nothing({ children }) {
  return html`<p class="panel nothing">${children}</p>`;
}
