// Address pools as maps, node groups, events.
import { html } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Bar, Card, Chip, Empty, matches } from "/part.js";
import { age, colour } from "/format.js";

const Block = ({ block }) => {
  const [x, y, width, height] = block.area;
  const gap = Math.min(0.004, width / 8, height / 8);
  return html`<g><title>${block.cidr} · ${block.holder}</title>
    <rect x=${x + gap} y=${y + gap} width=${width - 2 * gap} height=${height - 2 * gap} rx=${gap}
      style=${{ fill: block.failed ? "var(--bad)" : colour(block.holder) }}></rect>
    ${width >= 0.03 + block.cidr.length * 0.0208 && height >= 0.06 && html`<text x=${x + 0.016} y=${y + 0.045}>${block.cidr}</text>`}</g>`;
};

export const Addresses = ({ filter }) => {
  const pools = Object.entries(state.addresses).filter(([key, pool]) => matches(filter, key, pool.cidr)).sort();
  if (!pools.length) return html`<${Card}><${Empty} source=${state.sources.pools}>No pools.<//><//>`;
  return html`<div class="pools">${pools.map(([key, pool]) => html`
    <${Card} key=${key} title=${pool.name} note="${pool.cidr} · ${pool.strategy}">
      <svg class="map" viewBox="0 0 1 1" role="img" aria-label="blocks of ${pool.name}">${pool.blocks.map((block) => html`<${Block} block=${block} />`)}</svg>
      <div class="key"><span>${pool.blocks.length} blocks</span><span>${(pool.used * 100).toFixed(pool.used < 0.1 ? 2 : 0)} % taken</span></div>
      <div class="legend">${pool.blocks.slice(0, 12).map((block) => html`<span class="mono"><span class="swatch" style=${{ background: colour(block.holder), display: "inline-block", marginRight: "5px" }}></span>${block.cidr} <span class="soft">${block.holder}</span></span>`)}
        ${pool.blocks.length > 12 && html`<span class="soft">and ${pool.blocks.length - 12} more</span>`}</div>
    <//>`)}</div>`;
};

export const NodeGroups = ({ filter }) => {
  const groups = Object.values(state.nodegroups).filter((group) => matches(filter, group.name, group.type)).sort((a, b) => a.name.localeCompare(b.name));
  if (!groups.length) return html`<${Empty} source=${state.sources.nodegroups}>No NodeGroups.<//>`;
  return html`<div class="scroll"><table><thead><tr><th>group</th><th>type</th><th>ready</th><th></th><th class="number">desired</th><th class="number">min</th><th class="number">max</th><th></th></tr></thead>
    <tbody>${groups.map((group) => html`<tr key=${group.name}><td>${group.name}</td><td class="soft">${group.type}</td>
      <td class="mono">${group.ready} of ${group.nodes}</td><td><${Bar} value=${group.ready} of=${Math.max(group.max, group.nodes, 1)} label="ready nodes" tone=${group.ready < group.desired ? "warn" : "good"} /></td>
      <td class="number">${group.desired}</td><td class="number">${group.min}</td><td class="number">${group.max}</td>
      <td>${group.error && html`<${Chip} kind="bad">${group.error}<//>`}</td></tr>`)}</tbody></table></div>`;
};

export const Events = ({ filter, most = 300 }) => {
  const events = Object.entries(state.events)
    .filter(([, event]) => matches(filter, event.about, event.kind, event.reason, event.message, event.type))
    .sort(([, a], [, b]) => b.time.localeCompare(a.time)).slice(0, most);
  if (!events.length) return html`<${Empty} source=${state.sources.events}>No events.<//>`;
  return html`<div class="scroll"><table><tbody>${events.map(([key, event]) => html`<tr key=${key}>
    <td class="soft number age">${age(event.time)}</td>
    <td><${Chip} kind=${event.type === "Warning" ? "warn" : ""}>${event.reason}<//></td>
    <td><span class="soft">${event.kind}</span> ${event.about}</td>
    <td>${event.message}${event.count > 1 && html` <span class="soft">×${event.count}</span>`}</td></tr>`)}</tbody></table></div>`;
};
