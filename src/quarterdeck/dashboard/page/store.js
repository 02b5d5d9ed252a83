// What the server told: sections of rows by key. Changes are drawn once per frame, however many there are.

const SECTIONS = ["nodes", "queues", "gangs", "trainings", "inference", "addresses", "nodegroups", "events", "sources"];

export const state = {
  title: "",
  isLive: false,
  revision: 0,
  ...Object.fromEntries(SECTIONS.map((name) => [name, {}])),
};

let draw = () => {};
let isPlanned = false;

function changed() {
  state.revision += 1;
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
  source.addEventListener("hello", (event) => {
    state.title = JSON.parse(event.data).title;
    for (const name of SECTIONS) state[name] = {};
  });
  source.onopen = () => {
    state.isLive = true;
    changed();
  };
  source.onerror = () => {
    state.isLive = false;
    changed();
  };
  source.onmessage = (event) => {
    const { section, rows, gone, isWhole } = JSON.parse(event.data);
    const next = isWhole ? rows : { ...state[section], ...rows };
    for (const key of gone) delete next[key];
    state[section] = next;
    changed();
  };
}
