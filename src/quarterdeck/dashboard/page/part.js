// Small things that several views are made of.
import { html } from "/vendor/htm-preact.js";
import { gangName, paint, plural } from "/format.js";

export { matches } from "/store.js";

export const Chip = ({ kind, children }) => html`<span class="chip ${kind}">${children}</span>`;

const TONES = {
  running: "good", Running: "good", Complete: "good", Bound: "good", ended: "quiet", Succeeded: "quiet", empty: "quiet",
  starting: "busy", waiting: "warn", Waiting: "warn", partly: "warn", Pending: "warn", Suspended: "quiet",
  failed: "bad", Failed: "bad", failing: "bad", "not ready": "bad", Error: "bad", critical: "bad", Warning: "warn", warning: "warn",
  notice: "quiet", Normal: "quiet", Terminating: "quiet",
};

export const State = ({ value }) => html`<${Chip} kind=${TONES[value] ?? "quiet"}>${value.toLowerCase()}<//>`;

export const Swatch = ({ name }) => html`<span class="swatch" style=${{ background: paint(name) }}></span>`;

export const Bar = ({ value, of, tone = "use", label }) => html`
  <div class="bar" role="meter" aria-label=${label} aria-valuenow=${value} aria-valuemin="0" aria-valuemax=${of}>
    <div class="fill ${tone}" style=${{ width: `${of > 0 ? Math.min(100, (value / of) * 100) : 0}%` }}></div>
  </div>`;

// What an empty list says: never that there is nothing, where a filter hides it or it could not be read.
export const Empty = ({ source, hidden = 0, children }) => {
  if (hidden > 0) return html`<p class="empty">The filter hides all ${plural(hidden, "entr").replace(/entrs?$/, hidden === 1 ? "entry" : "entries")}. Esc clears it.</p>`;
  if (source?.state === "refused" || source?.state === "retrying") return html`<p class="empty bad">${source.message}</p>`;
  if (source?.state === "loading") return html`<p class="empty">Loading…</p>`;
  if (source?.state === "absent") return html`<p class="empty">Not installed in this cluster.</p>`;
  return html`<p class="empty">${children}</p>`;
};

export const Card = ({ title, note, children, kind = "" }) => html`
  <section class="card ${kind}">
    ${title && html`<h2>${title}${note && html`<span class="note">${note}</span>`}</h2>`}
    ${children}
  </section>`;

// A card that opens details: by mouse, by Enter, found by the arrow keys.
export const Opener = ({ open, children, kind = "", label, title }) => html`
  <div class="opener ${kind}" tabindex="0" role="button" aria-label=${label} title=${title}
    onClick=${open} onKeyDown=${(event) => event.key === "Enter" && open()}>${children}</div>`;

// A row of a table that opens details: the name in it is a button, and the whole row can be clicked.
export const OpenerRow = ({ open, name, children }) => html`
  <tr class="openable" onClick=${open}><td><button class="opener link" onClick=${(event) => { event.stopPropagation(); open(); }}>${name}</button></td>${children}</tr>`;

export const ObjectLink = ({ object, open }) => html`
  <button class="opener link" onClick=${() => open({ kind: object.kind, version: object.apiVersion ?? "", key: object.namespace ? `${object.namespace}/${object.name}` : object.name })}>
    <span class="soft">${object.kind}</span> ${object.namespace ? `${object.namespace}/` : ""}${gangName(object.name)}</button>`;
