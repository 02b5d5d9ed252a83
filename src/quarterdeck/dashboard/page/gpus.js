// The nodes as a map: one cell for each GPU, in the colour of the gang that has it.
import { html } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Empty, Opener, matches } from "/part.js";
import { bytes, colour, count, gangName, shortName } from "/format.js";

const DENSE = 200; // nodes from which a node is one stripe

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
  const shown = guests.some((guest) => matches(filter, guest.gang, guest.pod));
  const title = guests.map((guest) => `${guest.gang} · ${guest.pod}${guest.part < 1 ? ` · ${count(guest.part)} GPU` : ""}`);
  return html`<div class="cell ${filter && !shown ? "dim" : ""}" title=${title.join("\n") || "free"}>
    ${guests.map((guest) => {
      const style = { bottom: `${height * 100}%`, height: `${guest.part * 100}%`, background: colour(guest.gang) };
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

const Node = ({ node, filter }) => html`
  <div class="node ${node.ready ? "" : "down"} ${node.cordoned ? "cordoned" : ""}"
    title="${node.name}: ${node.pods} pods, CPU ${count(node.cpu[0])} of ${count(node.cpu[1])}, memory ${bytes(node.memory[0])} of ${bytes(node.memory[1])}">
    <div class="name">${node.name}<span>${node.ready ? (node.cordoned ? "cordoned" : `${node.pods} pods`) : "not ready"}</span></div>
    ${node.gpus
      ? html`<div class="cells">${cells(node).map((guests) => html`<${Cell} guests=${guests} filter=${filter} />`)}</div>`
      : ""}
  </div>`;

export const GpuMap = ({ filter, open, legend = true }) => {
  const nodes = Object.values(state.nodes).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  if (!nodes.length) return html`<${Empty} source=${state.sources.nodes}>This cluster has no nodes yet.<//>`;
  const domains = new Map();
  for (const node of nodes) {
    const domain = node.gpus ? node.domain.join(" / ") : "without GPUs";
    domains.set(domain, [...(domains.get(domain) ?? []), node]);
  }
  const isDense = nodes.length > DENSE;
  const gangs = [...new Set(nodes.flatMap((node) => node.guests.map((guest) => guest.gang)))].sort();
  return html`
    ${[...domains].sort(([a], [b]) => (a === "without GPUs") - (b === "without GPUs") || a.localeCompare(b)).map(([domain, members]) => html`
      <div class="domain">
        ${(domains.size > 1 || domain) && html`<h3>${domain || "elsewhere"}</h3>`}
        <div class="nodes ${isDense ? "dense" : ""}">
          ${members.map((node) => isDense
            ? html`<div class="stripe ${node.ready ? "" : "down"}" title=${node.name} style=${{ background: stripe(node) }}></div>`
            : html`<${Node} key=${node.name} node=${node} filter=${filter} />`)}
        </div>
      </div>`)}
    ${legend && html`<div class="legend">
      ${gangs.slice(0, 60).map((gang) => html`
        <${Opener} open=${() => open({ kind: "gang", key: gang })} label=${gang}>
          <span class="swatch" style=${{ background: colour(gang) }}></span>${gangName(shortName(gang))}
        <//>`)}
      ${gangs.length > 60 && html`<span class="soft">and ${gangs.length - 60} more</span>`}
    </div>`}`;
};
