// The page: a header, views, a drawer with details, and the keyboard.
import { html, render, useEffect, useReducer, useRef, useState } from "/vendor/htm-preact.js";
import { follow, state } from "/store.js";
import { GpuMap } from "/gpus.js";
import { QueueTable, Queues } from "/queues.js";
import { GangDetail, Gangs, Waiting, waiting } from "/gangs.js";
import { Inference, TrainingDetail, Trainings } from "/work.js";
import { Addresses, Events, NodeGroups } from "/machine.js";
import { Card } from "/part.js";
import { count } from "/format.js";

const Tile = ({ label, number, of }) => html`<div class="tile"><div class="label">${label}</div>
  <div class="number">${number}${of !== undefined && html`<small> of ${of}</small>`}</div></div>`;

function Tiles() {
  const nodes = Object.values(state.nodes);
  const gangs = Object.values(state.gangs);
  const gpus = nodes.reduce((sum, node) => sum + node.gpus, 0);
  const used = nodes.reduce((sum, node) => sum + node.guests.reduce((each, guest) => each + guest.gpus, 0), 0);
  const jobs = Object.values(state.trainings);
  return html`<div class="tiles">
    <${Tile} label="GPUs in use" number=${count(used)} of=${gpus} />
    <${Tile} label="nodes ready" number=${nodes.filter((node) => node.ready).length} of=${nodes.length} />
    <${Tile} label="gangs running" number=${gangs.filter((gang) => gang.state === "running").length} />
    <${Tile} label="gangs waiting" number=${waiting().length} />
    <${Tile} label="trainings under way" number=${jobs.filter((job) => job.state === "Running").length} of=${jobs.length} />
    <${Tile} label="inference services" number=${Object.keys(state.inference).length} />
  </div>`;
}

const Overview = (props) => html`<${Tiles} />
  <div class="columns"><div>
    <${Card} title="GPUs" note="a colour for each gang"><${GpuMap} ...${props} /><//>
    <${Card} title="Latest events"><${Events} ...${props} most=${8} /><//>
  </div><div>
    <${Card} title="What waits, and why"><${Waiting} ...${props} /><//>
    <${Card} title="Queues" note="GPUs"><${Queues} ...${props} /><//>
  </div></div>`;

const VIEWS = [
  ["Overview", Overview],
  ["GPUs", (props) => html`<${Card} title="GPUs by node" note="a colour for each gang"><${GpuMap} ...${props} /><//>`],
  ["Queues", (props) => html`<${Card} title="Queues" note="GPUs"><${Queues} ...${props} /><//><${Card} title="CPU and memory"><${QueueTable} ...${props} /><//>`],
  ["Gangs", (props) => html`${waiting().length > 0 && html`<${Card} title="What waits, and why"><${Waiting} ...${props} /><//>`}<${Card} title="All gangs"><${Gangs} ...${props} /><//>`, () => waiting().length],
  ["Training", (props) => html`<${Card} title="TrainJobs"><${Trainings} ...${props} /><//>`],
  ["Inference", (props) => html`<${Inference} ...${props} />`],
  ["Addresses", (props) => html`<${Addresses} ...${props} />`],
  ["Node groups", (props) => html`<${Card} title="NodeGroups"><${NodeGroups} ...${props} /><//>`],
  ["Events", (props) => html`<${Card} title="Events"><${Events} ...${props} /><//>`],
];

const KEYS = [
  ["1 … 9", "choose a view"], ["← →", "the view beside"], ["↑ ↓", "the next thing that opens"], ["Enter", "open it"],
  ["Esc", "close"], ["/", "filter"], ["t", "dark or light"], ["?", "this help"],
];

const Help = () => html`<h2>Keys</h2><dl class="help">${KEYS.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
  <p class="soft">This page reads the cluster with the credentials of whoever started it, and changes nothing.</p>`;

const Drawer = ({ detail, close }) => {
  const box = useRef(null);
  useEffect(() => box.current?.focus(), [detail.kind, detail.key]);
  return html`<aside ref=${box} tabindex="-1" role="dialog" aria-label="details">
    <button class="close" onClick=${close} aria-label="close">×</button>
    ${detail.kind === "gang" && html`<${GangDetail} key=${detail.key} id=${detail.key} />`}
    ${detail.kind === "training" && html`<${TrainingDetail} key=${detail.key} id=${detail.key} />`}
    ${detail.kind === "help" && html`<${Help} />`}
  </aside>`;
};

function wantedTheme() {
  const stored = localStorage.getItem("theme");
  return stored ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
}

const viewOfAddress = () => Math.max(0, VIEWS.findIndex(([name]) => `#${name.toLowerCase().replace(" ", "-")}` === location.hash));

function App() {
  const [, draw] = useReducer((number) => number + 1, 0);
  const [view, setView] = useState(viewOfAddress());
  const [filter, setFilter] = useState("");
  const [detail, open] = useState(null);
  const [theme, setTheme] = useState(wantedTheme());
  const search = useRef(null);
  useEffect(() => {
    follow(draw);
    const timer = setInterval(draw, 1000); // ages grow by themselves
    return () => clearInterval(timer);
  }, []);
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  useEffect(() => { location.hash = VIEWS[view][0].toLowerCase().replace(" ", "-"); }, [view]);
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
        return detail ? open(null) : setFilter("");
      }
      if (event.target.tagName === "INPUT") return;
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
  }, [view, detail, theme]);
  const View = VIEWS[view][1];
  return html`
    <header>
      <img src="/icon.svg" alt="" /><h1>Quarterdeck</h1><span class="where">${state.title}</span>
      <span class="live ${state.isLive ? "" : "lost"}">${state.isLive ? "live" : "connection lost"}</span>
      <span class="gap"></span>
      <input ref=${search} type="search" placeholder="filter  /" aria-label="filter" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <button onClick=${turn} aria-label="dark or light">${theme === "dark" ? "☀" : "☾"}</button>
      <button onClick=${() => open({ kind: "help" })} aria-label="help">?</button>
    </header>
    <nav role="tablist">${VIEWS.map(([name, , badge], place) => html`
      <button role="tab" aria-selected=${place === view ? "true" : "false"} onClick=${() => setView(place)}>${name}${badge && badge() > 0 && html`<span class="badge warn">${badge()}</span>`}</button>`)}</nav>
    <main role="tabpanel"><${View} filter=${filter} open=${open} /></main>
    ${detail && html`<${Drawer} detail=${detail} close=${() => open(null)} />`}`;
}

render(html`<${App} />`, document.body);
