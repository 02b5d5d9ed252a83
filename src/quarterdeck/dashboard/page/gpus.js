// The nodes as a map: one cell for each GPU, in the colour of the gang that has it.
import { html } from "/vendor/htm-preact.js";
import { derived, isFiltering, state } from "/store.js";
import { Bar, Empty, Opener, Swatch, matches } from "/part.js";
import { bytes, colour, count, gangName, natural, paint, plural, shortName } from "/format.js";

const DENSE = 200; // nodes from which a node is one stripe
const FEW = 48; // nodes that the overview shows one by one
const RACKS = 12; // racks that it shows then

function cells(node) {
  const found = [];
  for (const guest of node.guests) {
    let left = guest.gpus;
    for (; left >= 1; left -= 1) found.push([{ ...guest, part: 1 }]);
    if (left <= 0.001) continue;
    const shared = found.find((cell) => cell.reduce((sum, each) => sum + each.part, 0) + left <= 1.001);
    if (shared) shared.push({ ...guest, part: left });
    else found.push([{ ...guest, part: left }]);
  }
  while (found.length < node.gpus) found.push([]);
  return found;
}

const Cell = ({ guests, filter }) => {
  let height = 0;
  const shown = guests.some((guest) => matches(filter, { namespace: guest.gang.split("/")[0], queue: state.gangs[guest.gang]?.queue }, guest.gang, guest.pod));
  const title = guests.map((guest) => `${guest.gang} · ${guest.pod}${guest.part < 1 ? ` · ${count(guest.part)} GPU` : ""}`);
  return html`<div class="cell ${isFiltering(filter) && !shown ? "dim" : ""}" title=${title.join("\n") || "free"}>
    ${guests.map((guest) => {
      const style = { bottom: `${height * 100}%`, height: `${guest.part * 100}%`, background: paint(guest.gang) };
      height += guest.part;
      return html`<i style=${style}></i>`;
    })}
  </div>`;
};

function stripe(node) {
  const found = cells(node);
  const size = 100 / Math.max(1, found.length);
  const stops = found.map((guests, place) => {
    const paint = guests.length ? colour(guests[0].gang) : "var(--track)";
    return `${paint} ${place * size}% ${(place + 1) * size}%`;
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")})` : "none";
}

const used = (node) => node.guests.reduce((sum, guest) => sum + guest.gpus, 0);

const Node = ({ node, filter, open }) => html`
  <${Opener} kind="node ${node.ready ? "" : "down"} ${node.cordoned ? "cordoned" : ""}" open=${() => open({ kind: "Node", key: node.name })}
    title="${node.name}: ${node.ready ? "ready" : "not ready"}, ${count(used(node))} of ${plural(node.gpus, "GPU")}, ${plural(node.pods, "pod")}, CPU ${count(node.cpu[0])} of ${count(node.cpu[1])}, memory ${bytes(node.memory[0])} of ${bytes(node.memory[1])}">
    <div class="name">${node.name}<span>${node.ready ? (node.cordoned ? "cordoned" : plural(node.pods, "pod")) : "not ready"}</span></div>
    ${node.gpus
      ? html`<div class="cells">${cells(node).map((guests) => html`<${Cell} guests=${guests} filter=${filter} />`)}</div>`
      : ""}
  <//>`;

function domainsOf(nodes) {
  const domains = new Map();
  for (const node of nodes) {
    const domain = node.gpus ? node.domain.join(" / ") : "without GPUs";
    if (!domains.has(domain)) domains.set(domain, []);
    domains.get(domain).push(node);
  }
  const down = (members) => members.filter((node) => !node.ready).length;
  return [...domains].sort(([a, x], [b, y]) => (a === "without GPUs") - (b === "without GPUs") || down(y) - down(x) || natural(a, b));
}

const domainsOfAll = derived("nodes", () => domainsOf(sorted()));

const sorted = derived("nodes", (rows) => Object.values(rows).sort((a, b) => a.ready - b.ready || natural(a.name, b.name)));

// Where there are many nodes: a line for each rack, the bad ones first.
const Racks = ({ domains }) => html`<table><tbody>${domains.slice(0, RACKS).map(([domain, members]) => {
    const gpus = members.reduce((sum, node) => sum + node.gpus, 0), busy = members.reduce((sum, node) => sum + used(node), 0);
    const down = members.filter((node) => !node.ready).length;
    return html`<tr key=${domain}><td>${domain || "elsewhere"}</td><td class="wide"><${Bar} value=${busy} of=${gpus} label="GPUs in use" /></td>
      <td class="number">${count(busy)} of ${plural(gpus, "GPU")}</td><td class="number soft">${plural(members.length, "node")}</td>
      <td>${down > 0 && html`<span class="chip bad">${down} not ready</span>`}</td></tr>`;
  })}</tbody></table>${domains.length > RACKS && html`<p class="soft">and ${plural(domains.length - RACKS, "other")}: see GPUs</p>`}`;

export const GpuMap = ({ filter, open, legend = true, isShort = false }) => {
  const nodes = sorted();
  if (!nodes.length) return html`<${Empty} source=${state.sources.nodes}>This cluster has no nodes yet.<//>`;
  const domains = domainsOfAll();
  if (isShort && nodes.length > FEW) return html`<${Racks} domains=${domains} />`;
  const isDense = nodes.length > DENSE;
  const gangs = [...new Set(nodes.flatMap((node) => node.guests.map((guest) => guest.gang)))].sort();
  return html`
    ${domains.map(([domain, members]) => html`
      <div class="domain" key=${domain}>
        ${(domains.length > 1 || domain) && html`<h3>${domain || "elsewhere"}</h3>`}
        <div class="nodes ${isDense ? "dense" : ""}">
          ${members.map((node) => isDense
            ? html`<button key=${node.name} class="stripe ${node.ready ? "" : "down"}" title=${node.name} aria-label="${node.name}: ${node.ready ? "ready" : "not ready"}, ${count(used(node))} of ${node.gpus} GPUs" style=${{ background: stripe(node) }} onClick=${() => open({ kind: "Node", key: node.name })}></button>`
            : html`<${Node} key=${node.name} node=${node} filter=${filter} open=${open} />`)}
        </div>
      </div>`)}
    ${legend && html`<div class="legend">
      ${gangs.slice(0, 60).map((gang) => html`
        <${Opener} key=${gang} open=${() => open({ kind: "gang", key: gang })} label=${gang}><${Swatch} name=${gang} />${gangName(shortName(gang))}<//>`)}
      ${gangs.length > 60 && html`<span class="soft">and ${gangs.length - 60} more</span>`}
    </div>`}`;
};
