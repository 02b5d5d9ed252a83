// Gangs: what waits and why, and all of them as a table.
import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { derived, state } from "/store.js";
import { Empty, ObjectLink, Opener, OpenerRow, State, Swatch, matches } from "/part.js";
import { Problem, problemsOf } from "/attention.js";
import { age, bound, count, gangName, plural, withGangNames } from "/format.js";

const ORDER = ["failing", "not ready", "waiting", "partly", "failed", "starting", "running", "ended", "empty"];

export const waiting = derived("gangs", (rows) =>
  Object.entries(rows)
    .filter(([, gang]) => gang.waiting > 0)
    .sort(([, a], [, b]) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0)));

const sentence = (key, gang) => problemsOf("PodGroup", key).find((each) => each.situation !== "gang-evicted")?.reason ?? (gang.why[0] ?? "").split("\n")[0];

// Why free GPUs do not help: they are on different nodes.
function scattered(gang) {
  const each = gang.pods ? gang.gpus / gang.pods : 0;
  const free = Object.values(state.nodes).filter((node) => node.ready && !node.cordoned)
    .map((node) => node.gpus - node.guests.reduce((sum, guest) => sum + guest.gpus, 0));
  const all = free.reduce((sum, value) => sum + value, 0), most = Math.max(0, ...free);
  return each > most && all >= each ? `${plural(all, "GPU")} are free, at most ${count(most)} on one node, and a pod needs ${count(each)}.` : "";
}

const missing = (gangs) => gangs.reduce((sum, [, gang]) => sum + gang.gpus - gang.placedGpus, 0);

const Wait = ({ reason, gangs, open }) => {
  const [isWhole, setWhole] = useState(false);
  const [key, gang] = gangs[0];
  const shown = isWhole ? gangs : gangs.slice(0, 6);
  const hint = scattered(gang);
  return html`<div class="wait"><p class="head"><b>${gangs.length === 1 ? gangName(gang.name) : plural(gangs.length, "gang")}: ${withGangNames(reason || "no reason is given")}</b></p>
    ${missing(gangs) > 0 && html`<p class="soft">${plural(missing(gangs), "GPU")} missing.${hint && ` ${hint}`}</p>`}
    ${shown.map(([each, row]) => html`<${Opener} key=${each} kind="line" open=${() => open({ kind: "gang", key: each })}>
      <${Swatch} name=${each} /><b>${gangName(row.name)}</b><${State} value=${row.state} />
      <span class="soft">${row.waiting} of ${plural(row.pods, "pod")}${row.queue ? ` · queue ${row.queue}` : ""} · ${age(row.since)}</span>
      ${row.grouped && html`<span class="ask">What would start it? ⏎</span>`}<//>`)}
    ${gangs.length > 6 && html`<button class="link" onClick=${() => setWhole(!isWhole)}>${isWhole ? "fewer" : plural(gangs.length - 6, "other")}</button>`}
    ${gang.why[0] && gang.why[0] !== reason && html`<details><summary>in the scheduler's words</summary><blockquote>${gang.why[0]}</blockquote></details>`}
  </div>`;
};

export const Waiting = ({ filter, open }) => {
  const all = waiting();
  const found = all.filter(([key, gang]) => matches(filter, gang, key, gang.queue, gang.why.join(" ")));
  if (!found.length) return html`<${Empty} source=${state.sources.pods} hidden=${all.length}>Nothing waits.<//>`;
  const reasons = new Map();
  for (const [key, gang] of found) {
    const reason = sentence(key, gang);
    reasons.set(reason, [...(reasons.get(reason) ?? []), [key, gang]]);
  }
  return html`${[...reasons].sort(([, a], [, b]) => b.length - a.length).map(([reason, gangs]) => html`<${Wait} key=${reason} reason=${reason} gangs=${gangs} open=${open} />`)}
    ${found.length < all.length && html`<p class="hidden">The filter hides ${plural(all.length - found.length, "gang")} that wait.</p>`}`;
};

export const Gangs = ({ filter, open }) => {
  const all = Object.entries(state.gangs);
  const rows = all
    .filter(([key, gang]) => matches(filter, gang, key, gang.queue, gang.state, gang.owner))
    .sort(([a, x], [b, y]) => ORDER.indexOf(x.state) - ORDER.indexOf(y.state) || a.localeCompare(b));
  if (!rows.length) return html`<${Empty} source=${state.sources.pods} hidden=${all.length}>No pods: whatever runs in the cluster is listed here, by gang.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="gangs"><table>
    <thead><tr><th>gang</th><th>state</th><th>queue</th><th class="number">pods placed</th><th class="number">minimum</th>
      <th class="number">GPUs</th><th class="number">restarts</th><th>made by</th><th class="number">age</th></tr></thead>
    <tbody>${rows.slice(0, 300).map(([key, gang]) => html`
      <${OpenerRow} key=${key} open=${() => open({ kind: "gang", key })} name=${html`<${Swatch} name=${key} /><span class="soft">${gang.namespace}/</span>${gangName(gang.name)}`}>
        <td><${State} value=${gang.state} /></td>
        <td>${gang.queue}</td>
        <td class="number">${gang.placed} of ${gang.pods}</td>
        <td class="number">${gang.minimum || ""}</td>
        <td class="number">${gang.gpus ? count(gang.gpus) : ""}</td>
        <td class="number">${gang.restarts || ""}</td>
        <td class="soft">${gang.owner}</td>
        <td class="number soft">${age(gang.since)}</td>
      <//>`)}</tbody>
  </table>${rows.length > 300 && html`<p class="empty">and ${rows.length - 300} more: filter with /</p>`}</div>`;
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
  const version = JSON.stringify([gang, Object.keys(state.nodes).length, Object.keys(state.queues).length]);
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

const Remedies = ({ remedies, verdict }) => html`
  <h3>What would start it</h3>
  ${remedies.map((each) => html`<div class="remedy"><div>${withGangNames(each.text)}
    ${each.evicts.length > 0 && html`<div class="evicts">and would move or evict ${each.evicts.map(gangName).join(", ")}</div>`}</div></div>`)}
  ${!remedies.length && html`<p class="empty">${verdict || "No single change of nodes, queues or running gangs that was tried would start it."}</p>`}`;

const Explanation = ({ found }) => html`
  ${found.missing && html`<p class="needs">It needs ${found.missing}. Next cycle: ${found.outcome}.</p>`}
  <${Remedies} remedies=${found.remedies} verdict=${found.verdict} />
  ${found.refusal && html`<h3>Why its queues refuse it</h3><pre>${found.refusal}</pre>`}
  ${found.queues.length > 0 && html`<h3>Its queues (GPUs)</h3><table>
    <thead><tr><th>queue</th><th class="number">quota</th><th class="number">limit</th><th class="number">fair share</th><th class="number">has</th><th class="number">wants</th></tr></thead>
    <tbody>${found.queues.map((each) => html`<tr><td>${each.name}</td><td class="number">${bound(each.quota)}</td><td class="number">${bound(each.limit)}</td>
      <td class="number">${bound(each.fair_share)}</td><td class="number">${count(each.allocated)}</td><td class="number">${count(each.requested)}</td></tr>`)}</tbody></table>`}
  ${found.domains.length > 0 && html`<h3>Topology domains</h3><table>
    <thead><tr><th>domain</th><th class="number">free GPUs</th><th class="number">pods that fit</th><th class="number">needed</th></tr></thead>
    <tbody>${found.domains.slice(0, 12).map((each) => html`<tr><td>${each.domain}</td><td class="number">${count(each.free_gpus)}</td>
      <td class="number">${each.fits}</td><td class="number">${each.needed}</td></tr>`)}</tbody></table>`}
  ${found.victims.length > 0 && html`<h3>Who could make room</h3>${byVerdict(found.victims).map(([verdict, victims]) => html`
    <details><summary>${plural(victims.length, "gang")}, ${plural(victims.reduce((sum, each) => sum + each.gpus, 0), "GPU")}: ${verdict}</summary>
      <table><thead><tr><th>gang</th><th>queue</th><th class="number">GPUs</th></tr></thead>
      <tbody>${victims.slice(0, 50).map((each) => html`<tr><td>${gangName(each.pod_group)}</td><td>${each.queue}</td><td class="number">${count(each.gpus)}</td></tr>`)}</tbody></table></details>`)}`}`;

function byVerdict(victims) {
  const found = new Map();
  for (const each of victims) found.set(each.verdict, [...(found.get(each.verdict) ?? []), each]);
  return [...found];
}

export const GangDetail = ({ id, open }) => {
  const gang = state.gangs[id];
  const isWaiting = gang?.waiting > 0;
  const found = useExplanation(id, isWaiting);
  if (!gang) return html`<h2>${id}</h2><p class="empty">It is gone.</p>`;
  const guests = Object.values(state.nodes).flatMap((node) =>
    node.guests.filter((guest) => guest.gang === id).map((guest) => ({ ...guest, node: node.name })));
  return html`
    <h2><${Swatch} name=${id} /> ${gangName(gang.name)}</h2>
    ${problemsOf("PodGroup", id).map((problem) => html`<${Problem} problem=${problem} open=${open} />`)}
    <div class="facts"><${State} value=${gang.state} /><span>namespace ${gang.namespace}</span>
      ${gang.queue && html`<span>queue ${gang.queue}</span>`}${gang.priority && html`<span>priority ${gang.priority}</span>`}
      <span>${gang.placed} of ${plural(gang.pods, "pod")} placed${gang.minimum ? `, ${gang.minimum} needed to start` : ""}</span><span>${age(gang.since)} old</span></div>
    ${gang.why.length > 0 && html`<h3>In the scheduler's words</h3><pre>${gang.why.join("\n")}</pre>`}
    ${isWaiting && gang.grouped && (found === null
      ? html`<p class="empty">Asking the scheduler…</p>`
      : found.error ? html`<p class="empty bad">${found.error}</p>` : html`<${Explanation} found=${found} />`)}
    ${guests.length > 0 && html`<h3>Where it runs</h3><table><tbody>${guests.map((guest) => html`
      <tr><td><${ObjectLink} object=${{ kind: "Pod", namespace: gang.namespace, name: guest.pod }} open=${open} /></td>
      <td><${ObjectLink} object=${{ kind: "Node", name: guest.node }} open=${open} /></td><td class="number">${plural(guest.gpus, "GPU")}</td></tr>`)}</tbody></table>`}
    ${gang.grouped && html`<h3>The object</h3><${ObjectLink} object=${{ kind: "PodGroup", namespace: gang.namespace, name: gang.name }} open=${open} />`}`;
};
