// Small things that several views are made of.
import { html } from "/vendor/htm-preact.js";

export const Chip = ({ kind, children }) => html`<span class="chip ${kind}">${children}</span>`;

const TONES = {
  running: "good", Running: "good", Complete: "good", ended: "quiet", Succeeded: "quiet", empty: "quiet",
  starting: "busy", waiting: "warn", Waiting: "warn", partly: "warn", Pending: "warn", Suspended: "quiet",
  failed: "bad", Failed: "bad", Warning: "warn", Normal: "quiet", Terminating: "quiet",
};

export const State = ({ value }) => html`<${Chip} kind=${TONES[value] ?? "quiet"}>${value.toLowerCase()}<//>`;

export const Bar = ({ value, of, tone = "use", label }) => html`
  <div class="bar" role="meter" aria-label=${label} aria-valuenow=${value} aria-valuemin="0" aria-valuemax=${of}>
    <div class="fill ${tone}" style=${{ width: `${of > 0 ? Math.min(100, (value / of) * 100) : 0}%` }}></div>
  </div>`;

export const Empty = ({ source, children }) => {
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

// A row or a card that opens details: by mouse, by Enter, found by the arrow keys.
export const Opener = ({ open, children, kind = "", as = "div", label }) => html`
  <${as} class="opener ${kind}" tabindex="0" role="button" aria-label=${label}
    onClick=${open} onKeyDown=${(event) => event.key === "Enter" && open()}>${children}<//>`;

export const matches = (filter, ...texts) => !filter || texts.join(" ").toLowerCase().includes(filter.toLowerCase());
