// Address pools as maps, node groups, events.
import { html } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Bar, Card, Chip, Empty, ObjectLink, OpenerRow, Swatch, matches } from "/part.js";
import { age, colour, natural, plural } from "/format.js";

const Block = ({ block }) => {
  const [x, y, width, height] = block.area;
  const gap = Math.min(0.004, width / 8, height / 8);
  return html`<g><title>${block.cidr} · ${block.holder}</title>
    <rect x=${x + gap} y=${y + gap} width=${width - 2 * gap} height=${height - 2 * gap} rx=${gap}
      style=${{ fill: block.failed ? "var(--bad)" : colour(block.holder) }}></rect>
    ${width >= 0.03 + block.cidr.length * 0.0208 && height >= 0.06 && html`<text x=${x + 0.016} y=${y + 0.045}>${block.cidr}</text>`}</g>`;
};

export const Addresses = ({ filter, open }) => {
  const all = Object.entries(state.addresses);
  const pools = all.filter(([key, pool]) => matches(filter, { namespace: pool.namespace }, key, pool.cidr)).sort();
  if (!pools.length) return html`<${Card}><${Empty} source=${state.sources.pools} hidden=${all.length}>No pools: SubnetPools and their blocks are drawn here.<//><//>`;
  return html`<div class="pools">${pools.map(([key, pool]) => html`
    <${Card} key=${key} title=${pool.name} note="${pool.cidr} · ${pool.strategy}">
      <svg class="map" viewBox="0 0 1 1" role="img" aria-label="blocks of ${pool.name}">${pool.blocks.map((block) => html`<${Block} block=${block} />`)}</svg>
      <div class="key"><span>${plural(pool.blocks.length, "block")}</span><span>${(pool.used * 100).toFixed(pool.used < 0.1 ? 2 : 0)} % taken</span></div>
      <div class="legend">${pool.blocks.slice(0, 12).map((block) => html`<span class="mono"><${Swatch} name=${block.holder} />${block.cidr} <span class="soft">${block.holder}</span></span>`)}
        ${pool.blocks.length > 12 && html`<span class="soft">and ${pool.blocks.length - 12} more</span>`}</div>
      <div class="subjects"><${ObjectLink} object=${{ kind: "SubnetPool", namespace: pool.namespace, name: pool.name }} open=${open} /></div>
    <//>`)}</div>`;
};

export const NodeGroups = ({ filter, open }) => {
  const all = Object.values(state.nodegroups);
  const groups = all.filter((group) => matches(filter, {}, group.name, group.type)).sort((a, b) => natural(a.name, b.name));
  if (!groups.length) return html`<${Empty} source=${state.sources.nodegroups} hidden=${all.length}>No NodeGroups: groups of nodes are listed here.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="node groups"><table><thead><tr><th>group</th><th>type</th><th>ready</th><th>of its maximum</th><th class="number">desired</th><th class="number">min</th><th class="number">max</th><th>error</th></tr></thead>
    <tbody>${groups.map((group) => html`<${OpenerRow} key=${group.name} open=${() => open({ kind: "NodeGroup", key: group.name })} name=${group.name}><td class="soft">${group.type}</td>
      <td class="mono">${group.ready} of ${group.nodes}</td><td><${Bar} value=${group.ready} of=${Math.max(group.max, group.nodes, 1)} label="ready nodes" tone=${group.ready < group.desired ? "warn" : "good"} /></td>
      <td class="number">${group.desired}</td><td class="number">${group.min}</td><td class="number">${group.max}</td>
      <td>${group.error && html`<${Chip} kind="bad">${group.error}<//>`}</td><//>`)}</tbody></table></div>`;
};

export const Events = ({ filter, open, most = 300 }) => {
  const all = Object.entries(state.events);
  const events = all
    .filter(([, event]) => matches(filter, { namespace: event.about.includes("/") ? event.about.split("/")[0] : undefined }, event.about, event.kind, event.reason, event.message, event.type))
    .sort(([, a], [, b]) => b.time.localeCompare(a.time)).slice(0, most);
  if (!events.length) return html`<${Empty} source=${state.sources.events} hidden=${all.length}>No events.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="events"><table><tbody>${events.map(([key, event]) => html`<tr key=${key}>
    <td class="soft number age">${age(event.time)}</td>
    <td><${Chip} kind=${event.type === "Warning" ? "warn" : ""}>${event.reason}<//></td>
    <td><button class="opener link" onClick=${() => open({ kind: event.kind, version: event.version ?? "", key: event.about })}><span class="soft">${event.kind}</span> ${event.about}</button></td>
    <td>${event.message}${event.count > 1 && html` <span class="soft">×${event.count}</span>`}</td></tr>`)}</tbody></table></div>`;
};
