// Numbers, times and colours as people read them.

export const count = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 2 : 1));

export const bound = (value) => (value < 0 ? "no bound" : count(value));

// "1 pod", "2 pods", "0 replicas".
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${count(Math.round(value * 10) / 10)} ${UNITS[unit]}`;
}

export function age(time) {
  const seconds = Math.max(0, (Date.now() - (typeof time === "number" ? time : Date.parse(time))) / 1000);
  if (!Number.isFinite(seconds)) return "";
  return duration(seconds);
}

export function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}

export const natural = new Intl.Collator("en", { numeric: true }).compare;

const UID = /-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

function hash(name) {
  let value = 2166136261;
  for (const letter of name.replace(UID, "")) value = Math.imul(value ^ letter.codePointAt(0), 16777619);
  return value >>> 7;
}

// A name has its look for ever, whatever else there is: one of twelve hues, three lightnesses (which also
// differ for who sees no hues) and four patterns (which differ without any colour).
const HUES = 12;
const LIGHTNESS = [-0.12, 0, 0.12];
const PATTERNS = [
  () => "none",
  (ink) => `repeating-linear-gradient(45deg, ${ink} 0 2px, transparent 2px 5px)`,
  (ink) => `repeating-linear-gradient(90deg, ${ink} 0 1px, transparent 1px 4px)`,
  (ink) => `radial-gradient(${ink} 1px, transparent 1.6px) 0 0 / 5px 5px`,
];

export function colour(name) {
  const value = hash(name);
  const lightness = LIGHTNESS[Math.floor(value / HUES) % LIGHTNESS.length];
  return `oklch(calc(var(--gang-light) + ${lightness}) 0.14 ${((value % HUES) * 30).toFixed(0)})`;
}

export function paint(name) {
  const pattern = PATTERNS[Math.floor(hash(name) / (HUES * LIGHTNESS.length)) % PATTERNS.length]("#0008");
  return pattern === "none" ? colour(name) : `${pattern}, ${colour(name)}`;
}

export const shortName = (key) => key.slice(key.indexOf("/") + 1);

// PodGroups that the scheduler made carry the UID of their owner, which nobody reads.
export const gangName = (name) => name.replace(UID, "").replace(/^((?:[^/ ]+\/)?)pg-/, "$1");

// The same for every gang that a text names.
export const withGangNames = (text) => text.replace(/\S+/g, (word) => gangName(word.replace(/,$/, "")) + (word.endsWith(",") ? "," : ""));
