// The tree of queues: what each is sure of, entitled to, has and wants.
import { html } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Chip, Empty, matches } from "/part.js";
import { bound, bytes, count } from "/format.js";

export function tree() {
  const queues = Object.values(state.queues);
  const below = (parent) =>
    queues
      .filter((queue) => (queue.parent && state.queues[queue.parent] ? queue.parent : "") === parent)
      .sort((a, b) => b.priority - a.priority || a.name.localeCompare(b.name))
      .flatMap((queue) => [queue, ...below(queue.name)]);
  return below("");
}

const Gauge = ({ share, fair }) => {
  const top = Math.max(share.quota, share.limit, share.allocated, share.requested, fair ?? 0, 1);
  const at = (value) => ({ left: `calc(${(value / top) * 100}% - 1px)` });
  const wide = (value) => ({ width: `${(value / top) * 100}%` });
  return html`
    <div class="gauge" role="meter" aria-valuemin="0" aria-valuemax=${top} aria-valuenow=${share.allocated}
      aria-label="GPUs" title="has ${count(share.allocated)}, wants ${count(share.requested)}, quota ${bound(share.quota)}, limit ${bound(share.limit)}">
      <div class="wants" style=${wide(share.requested)}></div>
      <div class="has" style=${wide(share.allocated)}></div>
      ${share.quota > 0 && html`<div class="mark" style=${at(share.quota)} title="quota"></div>`}
      ${fair > 0 && html`<div class="mark fair" style=${at(fair)} title="fair share"></div>`}
    </div>`;
};

export const Queues = ({ filter }) => {
  const queues = tree().filter((queue) => matches(filter, queue.name, queue.title));
  if (!queues.length) return html`<${Empty} source=${state.sources.queues}>No queues.<//>`;
  return html`
    ${queues.map((queue) => html`
      <div class="queue" key=${queue.name}>
        <div class="title" style=${{ paddingLeft: `${queue.depth * 18}px` }}>
          ${queue.title}${queue.priority !== 100 && html` <${Chip}>priority ${queue.priority}<//>`}
        </div>
        <${Gauge} share=${queue.gpu} fair=${queue.fairShare} />
        <div class="soft mono">${count(queue.gpu.allocated)} GPUs of ${bound(queue.gpu.quota)}${queue.fairShare == null ? "" : `, fair ${bound(queue.fairShare)}`}</div>
      </div>`)}
    <div class="key">
      <span><i></i>has</span><span><i class="wants"></i>wants</span>
      <span><i class="quota"></i>quota</span><span><i class="fair"></i>fair share</span>
    </div>`;
};

export const QueueTable = ({ filter }) => {
  const queues = tree().filter((queue) => matches(filter, queue.name, queue.title));
  if (!queues.length) return null;
  return html`<div class="scroll"><table>
    <thead><tr><th>queue</th><th class="number">CPU has</th><th class="number">CPU quota</th><th class="number">memory has</th>
      <th class="number">memory quota</th><th class="number">GPU limit</th><th class="number">over-quota weight</th></tr></thead>
    <tbody>${queues.map((queue) => html`<tr key=${queue.name}>
      <td style=${{ paddingLeft: `${queue.depth * 18}px` }}>${queue.title}</td>
      <td class="number">${count(queue.cpu.allocated)}</td><td class="number">${bound(queue.cpu.quota)}</td>
      <td class="number">${bytes(queue.memory.allocated)}</td><td class="number">${queue.memory.quota < 0 ? "∞" : bytes(queue.memory.quota)}</td>
      <td class="number">${bound(queue.gpu.limit)}</td><td class="number">${count(queue.gpu.weight)}</td></tr>`)}</tbody>
  </table></div>`;
};
