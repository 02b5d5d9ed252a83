// The tree of queues: what each is sure of, entitled to, has and wants.
import { html } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Chip, Empty, Opener, matches } from "/part.js";
import { bound, bytes, count, natural, plural } from "/format.js";

// Each queue, followed by those below it; queues in a circle are left at the end.
export function tree() {
  const all = Object.values(state.queues).sort((a, b) => b.priority - a.priority || natural(a.name, b.name));
  const found = new Set();
  const add = (parent) => all.filter((queue) => (state.queues[queue.parent] ? queue.parent : "") === parent && !found.has(queue))
    .forEach((queue) => { found.add(queue); add(queue.name); });
  add("");
  return [...found, ...all.filter((queue) => !found.has(queue))];
}

const isShown = (filter, queue) => matches(filter, { queue: queue.name }, queue.name, queue.title);

// All gauges have one scale, so that their lengths can be compared.
const Gauge = ({ share, fair, top }) => {
  const at = (value) => ({ left: `calc(${(value / top) * 100}% - 1px)` });
  const wide = (value) => ({ width: `${(value / top) * 100}%` });
  const within = share.quota < 0 ? share.allocated : Math.min(share.allocated, share.quota);
  return html`
    <div class="gauge" role="meter" aria-valuemin="0" aria-valuemax=${top} aria-valuenow=${share.allocated}
      aria-label="GPUs" title="has ${count(share.allocated)}, wants ${count(share.requested)}, quota ${bound(share.quota)}, limit ${bound(share.limit)}">
      <div class="wants" style=${wide(share.requested)}></div>
      <div class="over" style=${wide(share.allocated)}></div>
      <div class="has" style=${wide(within)}></div>
      ${share.quota > 0 && html`<div class="mark" style=${at(share.quota)} title="quota"></div>`}
      ${fair > 0 && html`<div class="mark fair" style=${at(fair)} title="fair share"></div>`}
    </div>`;
};

export const Queues = ({ filter, open }) => {
  const all = tree();
  const queues = all.filter((queue) => isShown(filter, queue));
  if (!queues.length) return html`<${Empty} source=${state.sources.queues} hidden=${all.length}>No queues: the gang scheduler's Queues are listed here.<//>`;
  const top = Math.max(1, ...all.flatMap(({ gpu, fairShare }) => [gpu.quota, gpu.allocated, gpu.requested, fairShare ?? 0]));
  return html`
    ${queues.map((queue) => html`
      <${Opener} key=${queue.name} kind="queue" open=${() => open({ kind: "Queue", key: queue.name })}>
        <div class="title" style=${{ paddingLeft: `${queue.depth * 18}px` }}>
          ${queue.title}${queue.priority !== 100 && html` <${Chip}>priority ${queue.priority}<//>`}
          ${queue.gpu.quota >= 0 && queue.gpu.allocated > queue.gpu.quota && html` <${Chip} kind="warn">over quota<//>`}
        </div>
        <${Gauge} share=${queue.gpu} fair=${queue.fairShare} top=${top} />
        <div class="soft mono">${plural(queue.gpu.allocated, "GPU")} of ${bound(queue.gpu.quota)}${queue.fairShare == null ? "" : `, fair ${bound(queue.fairShare)}`}</div>
      <//>`)}
    ${queues.length < all.length && html`<p class="hidden">The filter hides ${plural(all.length - queues.length, "queue")}.</p>`}
    <div class="key">
      <span><i></i>has</span><span><i class="over"></i>over quota</span><span><i class="wants"></i>wants</span>
      <span><i class="quota"></i>quota</span><span><i class="fair"></i>fair share</span>
    </div>`;
};

export const QueueTable = ({ filter }) => {
  const queues = tree().filter((queue) => isShown(filter, queue));
  if (!queues.length) return null;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="shares of queues"><table>
    <thead><tr><th>queue</th><th class="number">CPU has</th><th class="number">CPU quota</th><th class="number">memory has</th>
      <th class="number">memory quota</th><th class="number">GPU limit</th><th class="number">over-quota weight</th></tr></thead>
    <tbody>${queues.map((queue) => html`<tr key=${queue.name}>
      <td style=${{ paddingLeft: `${queue.depth * 18}px` }}>${queue.title}</td>
      <td class="number">${count(queue.cpu.allocated)}</td><td class="number">${bound(queue.cpu.quota)}</td>
      <td class="number">${bytes(queue.memory.allocated)}</td><td class="number">${queue.memory.quota < 0 ? "no bound" : bytes(queue.memory.quota)}</td>
      <td class="number">${bound(queue.gpu.limit)}</td><td class="number">${count(queue.gpu.weight)}</td></tr>`)}</tbody>
  </table></div>`;
};
