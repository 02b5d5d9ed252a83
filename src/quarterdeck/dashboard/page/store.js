// What the server told: sections of rows by key. Changes are drawn once per frame, however many there are.

const SECTIONS = ["nodes", "queues", "gangs", "trainings", "inference", "addresses", "nodegroups", "events", "sources", "problems", "health"];
const SILENCE = 15000; // milliseconds without a sign of life after which the data is old; the server gives one every 5 s

export const state = {
  title: "",
  isLive: false,
  heard: 0,
  ...Object.fromEntries(SECTIONS.map((name) => [name, {}])),
};

let draw = () => {};
let isPlanned = false;

function changed() {
  if (isPlanned) return;
  isPlanned = true;
  requestAnimationFrame(() => {
    isPlanned = false;
    draw();
  });
}

export function follow(onChange) {
  draw = onChange;
  const source = new EventSource("/stream");
  const hear = () => {
    state.isLive = true;
    state.heard = Date.now();
  };
  source.addEventListener("hello", (event) => {
    state.title = JSON.parse(event.data).title;
    for (const name of SECTIONS) state[name] = {};
    hear();
  });
  source.addEventListener("beat", hear);
  source.onerror = () => {
    state.isLive = false;
    changed();
  };
  source.onmessage = (event) => {
    const { section, rows, gone, isWhole } = JSON.parse(event.data);
    const next = isWhole ? rows : { ...state[section], ...rows };
    for (const key of gone) delete next[key];
    state[section] = next;
    hear();
    changed();
  };
}

// A function of one section, worked out again only when that has changed: views are drawn often.
export function derived(section, work) {
  let known, value;
  return () => {
    if (known !== state[section]) {
      known = state[section];
      value = work(known);
    }
    return value;
  };
}

export const health = () => state.health.health ?? { critical: 0, warning: 0, notice: 0, unknown: ["everything"], unreachableSince: "" };

// Since when what is shown is not what is: nothing if it is live.
export function staleSince() {
  if (state.heard && (!state.isLive || Date.now() - state.heard > SILENCE)) return { time: state.heard, why: "the page has lost its server" };
  if (health().unreachableSince) return { time: Date.parse(health().unreachableSince), why: "the cluster does not answer" };
  return null;
}

// Namespace, queue and severity that the reader asks for, and a text; empty is everything.
export const NO_FILTER = { text: "", namespace: "", queue: "", severity: "" };

export const isFiltering = (filter) => Object.values(filter).some(Boolean);

// Whether something is to be shown: it has the text, and is in the namespace and queue if it is in any.
export const matches = (filter, { namespace, queue }, ...texts) =>
  (!filter.text || texts.join(" ").toLowerCase().includes(filter.text.toLowerCase()))
  && (!filter.namespace || namespace === undefined || namespace === filter.namespace)
  && (!filter.queue || queue === undefined || queue === filter.queue);
