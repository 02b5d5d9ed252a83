// The page: a header, views, a drawer with details, and the keyboard. Everything that is shown has an address.
import { html, render, useEffect, useReducer, useRef, useState } from "/vendor/htm-preact.js";
import { NO_FILTER, derived, follow, health, isFiltering, staleSince, state } from "/store.js";
import { Attention } from "/attention.js";
import { GpuMap } from "/gpus.js";
import { History } from "/history.js";
import { QueueTable, Queues } from "/queues.js";
import { GangDetail, Gangs, Waiting, waiting } from "/gangs.js";
import { Inference, TrainingDetail, Trainings } from "/work.js";
import { Addresses, Events, NodeGroups } from "/machine.js";
import { ObjectDetail } from "/object.js";
import { Card } from "/part.js";
import { age, count } from "/format.js";

const Tile = ({ label, number, of, tone = "" }) => html`<div class="tile ${tone}"><div class="label">${label}</div>
  <div class="number">${number}${of !== undefined && html`<small> of ${of}</small>`}</div></div>`;

function Tiles() {
  const nodes = Object.values(state.nodes);
  const gangs = Object.values(state.gangs);
  const gpus = nodes.reduce((sum, node) => sum + node.gpus, 0);
  const used = nodes.reduce((sum, node) => sum + node.guests.reduce((each, guest) => each + guest.gpus, 0), 0);
  const ready = nodes.filter((node) => node.ready).length;
  const troubled = gangs.filter((gang) => ["failing", "not ready", "failed"].includes(gang.state)).length;
  const services = Object.values(state.inference);
  const serving = services.filter((each) => each.available > 0).length;
  return html`<div class="tiles">
    <${Tile} label="GPUs in use" number=${count(used)} of=${gpus} />
    <${Tile} label="nodes ready" number=${ready} of=${nodes.length} tone=${ready < nodes.length ? "bad" : ""} />
    <${Tile} label="gangs running" number=${gangs.filter((gang) => gang.runs).length} />
    <${Tile} label="gangs in trouble" number=${troubled} tone=${troubled ? "bad" : ""} />
    <${Tile} label="gangs waiting" number=${waiting().length} tone=${waiting().length ? "warn" : ""} />
    <${Tile} label="services available" number=${serving} of=${services.length} tone=${serving < services.length ? "bad" : ""} />
  </div>`;
}

const Overview = (props) => html`
  <${Card} title="Needs attention" note=${health().summary} kind=${health().critical ? "alarm" : ""}><${Attention} ...${props} most=${6} /><//>
  <${Tiles} />
  <div class="columns"><div>
    <${Card} title="What waits, and why"><${Waiting} ...${props} /><//>
    <${Card} title="GPUs" note="a colour and pattern for each gang"><${GpuMap} ...${props} isShort=${true} /><//>
  </div><div>
    <${Card} title="Queues" note="GPUs, all on one scale"><${Queues} ...${props} /><//>
    <${Card} title="Latest events"><${Events} ...${props} most=${8} /><//>
  </div></div>`;

const urgent = () => health().critical + health().warning;

const VIEWS = [
  ["Overview", Overview],
  ["Problems", (props) => html`<${Card} title="Needs attention" note=${health().summary}><${Attention} ...${props} /><//>`, urgent],
  ["GPUs", (props) => html`<${Card} title="GPUs by node" note="a colour and pattern for each gang"><${GpuMap} ...${props} /><//>`],
  ["Queues", (props) => html`<${Card} title="Queues" note="GPUs, all on one scale"><${Queues} ...${props} /><//><${Card} title="CPU and memory"><${QueueTable} ...${props} /><//>`],
  ["Gangs", (props) => html`${waiting().length > 0 && html`<${Card} title="What waits, and why"><${Waiting} ...${props} /><//>`}<${Card} title="All gangs"><${Gangs} ...${props} /><//>`, () => waiting().length],
  ["Training", (props) => html`<${Card} title="TrainJobs"><${Trainings} ...${props} /><//>`],
  ["Inference", (props) => html`<${Inference} ...${props} />`],
  ["Addresses", (props) => html`<${Addresses} ...${props} />`],
  ["Node groups", (props) => html`<${Card} title="NodeGroups"><${NodeGroups} ...${props} /><//>`],
  ["Events", (props) => html`<${Card} title="Events"><${Events} ...${props} /><//>`],
  ["History", (props) => html`<${History} ...${props} />`],
];

const KEYS = [
  ["1 … 9", "choose a view"], ["← →", "the view beside"], ["↑ ↓", "the next thing that opens"], ["Enter", "open it"],
  ["Esc", "close, or clear the filter"], ["/", "filter"], ["t", "dark or light"], ["?", "this help"],
];

const Help = () => html`<h2>Keys</h2><dl class="help">${KEYS.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
  <p class="soft">This page reads the cluster with the credentials of whoever started it, and changes nothing.</p>`;

const Drawer = ({ detail, open, close }) => {
  const box = useRef(null);
  useEffect(() => box.current?.focus(), [detail.kind, detail.key]);
  const id = detail.key;
  const body = detail.kind === "gang" ? html`<${GangDetail} key=${id} id=${id} open=${open} />`
    : detail.kind === "training" ? html`<${TrainingDetail} key=${id} id=${id} open=${open} />`
      : detail.kind === "help" ? html`<${Help} />`
        : html`<${ObjectDetail} key=${detail.kind + id} kind=${detail.kind} version=${detail.version ?? ""} id=${id} open=${open} />`;
  return html`<div class="dim" onClick=${close}></div>
    <aside ref=${box} tabindex="-1" role="dialog" aria-modal="true" aria-label="details of ${detail.kind} ${id ?? ""}">
      <button class="close" onClick=${close} aria-label="close">×</button>${body}
    </aside>`;
};

function wantedTheme() {
  const stored = localStorage.getItem("theme");
  return stored ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
}

// The address: the view, what is open in it, and the filter, so that it can be sent to a colleague.
const viewName = (name) => name.toLowerCase().replace(" ", "-");

function fromAddress() {
  const [name, query] = location.hash.slice(1).split("?");
  const wanted = new URLSearchParams(query ?? "");
  const opened = wanted.get("open");
  const place = opened?.indexOf(":") ?? -1;
  return {
    view: Math.max(0, VIEWS.findIndex(([each]) => viewName(each) === name)),
    detail: place > 0 ? { kind: opened.slice(0, place), key: opened.slice(place + 1), version: wanted.get("version") ?? "" } : null,
    filter: Object.fromEntries(Object.keys(NO_FILTER).map((each) => [each, wanted.get(each) ?? ""])),
  };
}

function toAddress({ view, detail, filter }) {
  const wanted = new URLSearchParams(Object.entries(filter).filter(([, value]) => value));
  if (detail && detail.kind !== "help") {
    wanted.set("open", `${detail.kind}:${detail.key}`);
    if (detail.version) wanted.set("version", detail.version);
  }
  const query = wanted.toString();
  return `#${viewName(VIEWS[view][0])}${query ? `?${query}` : ""}`;
}

const Choice = ({ name, values, filter, change }) => html`<select aria-label=${name} value=${filter[name]} onChange=${(event) => change({ ...filter, [name]: event.target.value })}>
  <option value="">every ${name}</option>${values.map((each) => html`<option value=${each} selected=${each === filter[name]}>${each}</option>`)}</select>`;

const ofGangs = derived("gangs", (rows) => new Set(Object.values(rows).map((gang) => gang.namespace)));
const ofProblems = derived("problems", (rows) => new Set(Object.values(rows).flatMap((row) => row.subjects.map((each) => each.namespace))));

const namespaces = () => [...new Set([...ofGangs(), ...ofProblems()])].filter(Boolean).sort();

const Liveness = () => {
  const stale = staleSince();
  if (!state.heard) return html`<span class="live lost">connecting</span>`;
  return stale ? html`<span class="live lost" role="alert">${stale.why}: what you see is ${age(stale.time)} old</span>` : html`<span class="live">live</span>`;
};

function title() {
  const { critical, warning } = health();
  const counts = [critical && `${critical} critical`, warning && `${warning} warning${warning === 1 ? "" : "s"}`].filter(Boolean).join(", ");
  return `${counts ? `(${counts}) ` : ""}${state.title ? `${state.title} · ` : ""}Quarterdeck`;
}

function App() {
  const [, draw] = useReducer((number) => number + 1, 0);
  const [where, go] = useState(fromAddress());
  const [theme, setTheme] = useState(wantedTheme());
  const search = useRef(null);
  const { view, detail, filter } = where;
  const setView = (next) => go({ ...where, view: next, detail: null });
  const setFilter = (next) => go({ ...where, filter: next });
  const open = (next) => go({ ...where, detail: next });
  useEffect(() => {
    follow(draw);
    const timer = setInterval(draw, 5000); // ages grow by themselves
    const turned = () => go(fromAddress());
    addEventListener("hashchange", turned);
    return () => { clearInterval(timer); removeEventListener("hashchange", turned); };
  }, []);
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  useEffect(() => {
    const address = toAddress(where);
    if (address !== location.hash) history.pushState(null, "", address);
  }, [where]);
  useEffect(() => { document.title = title(); });
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    setTheme(next);
  };
  useEffect(() => {
    const move = (step) => {
      const things = [...document.querySelectorAll(`${detail ? "aside" : "main"} .opener`)];
      const next = things[Math.min(things.length - 1, Math.max(0, things.indexOf(document.activeElement) + step))];
      next?.focus();
      return Boolean(next);
    };
    const press = (event) => {
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "Escape") {
        document.activeElement?.blur();
        return detail ? open(null) : setFilter(NO_FILTER);
      }
      if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
      const number = Number(event.key);
      if (number >= 1 && number <= VIEWS.length) setView(number - 1);
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft") setView((view + (event.key === "ArrowRight" ? 1 : VIEWS.length - 1)) % VIEWS.length);
      else if (event.key === "ArrowDown" || event.key === "j") { if (move(1)) event.preventDefault(); }
      else if (event.key === "ArrowUp" || event.key === "k") { if (move(-1)) event.preventDefault(); }
      else if (event.key === "t") turn();
      else if (event.key === "?") open({ kind: "help" });
      else if (event.key === "/") { event.preventDefault(); search.current?.focus(); }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [where, theme]);
  const View = VIEWS[view][1];
  const clear = () => setFilter(NO_FILTER);
  return html`
    <header>
      <img src="/icon.svg" alt="" /><h1>Quarterdeck</h1><span class="where">${state.title}</span>
      <${Liveness} />
      <span class="gap"></span>
      <div class="filters">
        <${Choice} name="namespace" values=${namespaces()} filter=${filter} change=${setFilter} />
        <${Choice} name="queue" values=${Object.keys(state.queues).sort()} filter=${filter} change=${setFilter} />
        <${Choice} name="severity" values=${["critical", "warning", "notice"]} filter=${filter} change=${setFilter} />
        <input ref=${search} type="search" placeholder="filter  /" aria-label="filter" value=${filter.text} onInput=${(event) => setFilter({ ...filter, text: event.target.value })} />
        ${isFiltering(filter) && html`<button onClick=${clear}>clear</button>`}
      </div>
      <button onClick=${turn} aria-label="dark or light">${theme === "dark" ? "☀" : "☾"}</button>
      <button onClick=${() => open({ kind: "help" })} aria-label="help">?</button>
    </header>
    <nav aria-label="views"><div role="tablist">${VIEWS.map(([name, , badge], place) => html`
      <button role="tab" id="tab-${place}" aria-controls="view" aria-selected=${place === view ? "true" : "false"} onClick=${() => setView(place)}>${name}${badge && badge() > 0 && html`<span class="badge warn">${badge()}</span>`}</button>`)}</div></nav>
    <main><div id="view" role="tabpanel" aria-labelledby="tab-${view}"><${View} filter=${filter} clear=${clear} open=${open} /></div></main>
    ${detail && html`<${Drawer} detail=${detail} open=${open} close=${() => open(null)} />`}`;
}

render(html`<${App} />`, document.body);
