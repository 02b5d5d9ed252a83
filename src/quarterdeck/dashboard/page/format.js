// Numbers, times and colours as people read them.

export const count = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : 1));

export const bound = (value) => (value < 0 ? "∞" : count(value));

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${count(Math.round(value * 10) / 10)}${UNITS[unit]}`;
}

export function age(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  return duration(seconds);
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d`;
}

const UID = /-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

// A name keeps its colour as long as the page is open, mostly also beyond; up to 24 names differ clearly.
const HUES = 24;
const known = new Map();
const taken = new Set();

export function colour(name) {
  let found = known.get(name);
  if (found === undefined) {
    let hash = 2166136261;
    for (const letter of name.replace(UID, "")) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
    let slot = (hash >>> 8) % HUES;
    while (taken.has(slot) && taken.size < HUES) slot = (slot + 1) % HUES;
    taken.add(slot);
    found = `oklch(var(--gang-light) 0.14 ${((slot * 137.508) % 360).toFixed(1)})`;
    known.set(name, found);
  }
  return found;
}

export const shortName = (key) => key.slice(key.indexOf("/") + 1);

// PodGroups that the scheduler made carry the UID of their owner, which nobody reads.
export const gangName = (name) => name.replace(UID, "").replace(/^((?:[^/ ]+\/)?)pg-/, "$1");

// The same for every gang that a text names.
export const withGangNames = (text) => text.replace(/\S+/g, (word) => gangName(word.replace(/,$/, "")) + (word.endsWith(",") ? "," : ""));
