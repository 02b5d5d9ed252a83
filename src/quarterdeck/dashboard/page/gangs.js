// Gangs: what waits and why, and all of them as a table.
import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Empty, Opener, State, matches } from "/part.js";
import { age, bound, colour, count, gangName, withGangNames } from "/format.js";

const ORDER = ["waiting", "partly", "starting", "failed", "running", "ended", "empty"];

export const waiting = () =>
  Object.entries(state.gangs)
    .filter(([, gang]) => gang.state === "waiting" || gang.state === "partly")
    .sort(([, a], [, b]) => a.since.localeCompare(b.since));

export const Waiting = ({ filter, open }) => {
  const found = waiting().filter(([key, gang]) => matches(filter, key, gang.queue, gang.why.join(" ")));
  if (!found.length) return html`<${Empty} source=${state.sources.pods}>Nothing waits.<//>`;
  return found.map(([key, gang]) => html`
    <${Opener} key=${key} kind="wait" open=${() => open({ kind: "gang", key })} label="why ${key} waits">
      <div class="head">
        <span class="swatch" style=${{ background: colour(key) }}></span>
        <b>${gangName(gang.name)}</b>
        <${State} value=${gang.state} />
        <span class="soft">${gang.waiting} of ${gang.pods} pods${gang.gpus ? `, ${count(gang.gpus - gang.placedGpus)} GPUs missing` : ""}
          ${gang.queue ? ` · queue ${gang.queue}` : ""} · ${age(gang.since)}</span>
      </div>
      ${gang.why.slice(0, 2).map((text) => html`<blockquote>${text}</blockquote>`)}
      ${gang.grouped && html`<div class="ask">What would start it? ⏎</div>`}
    <//>`);
};

export const Gangs = ({ filter, open }) => {
  const rows = Object.entries(state.gangs)
    .filter(([key, gang]) => matches(filter, key, gang.queue, gang.state, gang.owner))
    .sort(([a, x], [b, y]) => ORDER.indexOf(x.state) - ORDER.indexOf(y.state) || a.localeCompare(b));
  if (!rows.length) return html`<${Empty} source=${state.sources.pods}>No pods.<//>`;
  return html`<div class="scroll"><table>
    <thead><tr><th>gang</th><th>state</th><th>queue</th><th class="number">pods placed</th><th class="number">minimum</th>
      <th class="number">GPUs</th><th>made by</th><th class="number">age</th></tr></thead>
    <tbody>${rows.slice(0, 500).map(([key, gang]) => html`
      <${Opener} key=${key} as="tr" open=${() => open({ kind: "gang", key })} label=${key}>
        <td><span class="swatch" style=${{ background: colour(key), display: "inline-block", marginRight: "7px" }}></span>
          <span class="soft">${gang.namespace}/</span>${gangName(gang.name)}</td>
        <td><${State} value=${gang.state} /></td>
        <td>${gang.queue}</td>
        <td class="number">${gang.placed} of ${gang.pods}</td>
        <td class="number">${gang.minimum || ""}</td>
        <td class="number">${gang.gpus ? count(gang.gpus) : ""}</td>
        <td class="soft">${gang.owner}</td>
        <td class="number soft">${age(gang.since)}</td>
      <//>`)}</tbody>
  </table>${rows.length > 500 && html`<p class="empty">and ${rows.length - 500} more: filter with /</p>`}</div>`;
};

// The explanation is asked for again a second after the cluster has changed.
function useExplanation(key, isWaiting) {
  const [found, setFound] = useState(null);
  const [name, setName] = useState(key);
  if (name !== key) {
    setName(key);
    setFound(null);
  }
  const gang = state.gangs[key];
  const version = JSON.stringify([gang, Object.keys(state.nodes).length, state.queues]);
  useEffect(() => {
    if (!gang?.grouped || !isWaiting) return undefined;
    const timer = setTimeout(async () => {
      const query = new URLSearchParams({ namespace: gang.namespace, name: gang.name });
      const answer = await fetch(`/explain?${query}`);
      setFound(answer.ok ? await answer.json() : { error: await answer.text() });
    }, found ? 1000 : 0);
    return () => clearTimeout(timer);
  }, [key, version]);
  return found;
}

const Remedies = ({ remedies }) => html`
  <h3>What would start it</h3>
  ${remedies.map((each) => html`<div class="remedy"><div>${withGangNames(each.text)}
    ${each.evicts.length > 0 && html`<div class="evicts">and would move or evict ${each.evicts.map(gangName).join(", ")}</div>`}</div></div>`)}
  ${!remedies.length && html`<p class="empty">No single change of nodes, queues or running gangs that was tried would start it.</p>`}`;

const Explanation = ({ found }) => html`
  ${found.missing && html`<p class="needs">It needs ${found.missing}. Next cycle: ${found.outcome}.</p>`}
  <${Remedies} remedies=${found.remedies} />
  ${found.refusal && html`<h3>Why its queues refuse it</h3><pre>${found.refusal}</pre>`}
  ${found.queues.length > 0 && html`<h3>Its queues (GPUs)</h3><table>
    <thead><tr><th>queue</th><th class="number">quota</th><th class="number">limit</th><th class="number">fair share</th><th class="number">has</th><th class="number">wants</th></tr></thead>
    <tbody>${found.queues.map((each) => html`<tr><td>${each.name}</td><td class="number">${bound(each.quota)}</td><td class="number">${bound(each.limit)}</td>
      <td class="number">${bound(each.fair_share)}</td><td class="number">${count(each.allocated)}</td><td class="number">${count(each.requested)}</td></tr>`)}</tbody></table>`}
  ${found.domains.length > 0 && html`<h3>Topology domains</h3><table>
    <thead><tr><th>domain</th><th class="number">free GPUs</th><th class="number">pods that fit</th><th class="number">needed</th></tr></thead>
    <tbody>${found.domains.slice(0, 12).map((each) => html`<tr><td>${each.domain}</td><td class="number">${count(each.free_gpus)}</td>
      <td class="number">${each.fits}</td><td class="number">${each.needed}</td></tr>`)}</tbody></table>`}
  ${found.victims.length > 0 && html`<h3>Who could make room</h3><table>
    <thead><tr><th>gang</th><th>queue</th><th class="number">GPUs</th><th>verdict</th></tr></thead>
    <tbody>${found.victims.slice(0, 12).map((each) => html`<tr><td>${gangName(each.pod_group)}</td><td>${each.queue}</td>
      <td class="number">${count(each.gpus)}</td><td class="soft">${each.verdict}</td></tr>`)}</tbody></table>`}`;

export const GangDetail = ({ id }) => {
  const gang = state.gangs[id];
  const isWaiting = gang?.state === "waiting" || gang?.state === "partly";
  const found = useExplanation(id, isWaiting);
  if (!gang) return html`<h2>${id}</h2><p class="empty">It is gone.</p>`;
  const guests = Object.values(state.nodes).flatMap((node) =>
    node.guests.filter((guest) => guest.gang === id).map((guest) => ({ ...guest, node: node.name })));
  return html`
    <h2><span class="swatch" style=${{ background: colour(id), display: "inline-block", marginRight: "8px" }}></span>${gangName(gang.name)}</h2>
    <div class="facts"><${State} value=${gang.state} /><span>namespace ${gang.namespace}</span>
      ${gang.queue && html`<span>queue ${gang.queue}</span>`}${gang.priority && html`<span>priority ${gang.priority}</span>`}
      <span>${gang.placed} of ${gang.pods} pods placed${gang.minimum ? `, ${gang.minimum} needed to start` : ""}</span><span>${age(gang.since)} old</span></div>
    ${gang.why.length > 0 && html`<h3>In the scheduler's words</h3><pre>${gang.why.join("\n")}</pre>`}
    ${isWaiting && gang.grouped && (found === null
      ? html`<p class="empty">Asking the scheduler…</p>`
      : found.error ? html`<p class="empty bad">${found.error}</p>` : html`<${Explanation} found=${found} />`)}
    ${guests.length > 0 && html`<h3>Where it runs</h3><table><tbody>${guests.map((guest) => html`
      <tr><td>${guest.pod}</td><td>${guest.node}</td><td class="number">${count(guest.gpus)} GPUs</td></tr>`)}</tbody></table>`}`;
};
