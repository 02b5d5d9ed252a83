// The last hours, as the dashboard saw them: GPUs by queue and gang, who was evicted for whom, restarts.
import { html, useEffect, useState } from "/vendor/htm-preact.js";
import { Card, Chip, Swatch, matches } from "/part.js";
import { age, colour, count, plural } from "/format.js";

const WIDE = 1000, HIGH = 220;

// Areas on top of each other, one for each name, over the time of the samples.
const Areas = ({ samples, field, label }) => {
  const names = [...new Set(samples.flatMap((sample) => Object.keys(sample[field])))].sort();
  const top = Math.max(1, ...samples.map((sample) => Math.max(sample.gpus, Object.values(sample[field]).reduce((a, b) => a + b, 0))));
  const x = (place) => (samples.length > 1 ? (place / (samples.length - 1)) * WIDE : WIDE);
  const y = (value) => HIGH - (value / top) * HIGH;
  const floor = samples.map(() => 0);
  const areas = names.map((name) => {
    const lower = samples.map((_, place) => `${x(place)},${y(floor[place])}`).reverse();
    samples.forEach((sample, place) => { floor[place] += sample[field][name] ?? 0; });
    const upper = samples.map((_, place) => `${x(place)},${y(floor[place])}`);
    return html`<polygon points=${[...upper, ...lower].join(" ")} style=${{ fill: colour(name) }}><title>${name}</title></polygon>`;
  });
  const last = samples[samples.length - 1];
  return html`<svg class="areas" viewBox="0 0 ${WIDE} ${HIGH}" preserveAspectRatio="none" role="img" aria-label=${label}>${areas}</svg>
    <div class="key"><span>${age(samples[0].time)} ago</span><span class="gap"></span><span>now, of ${plural(last.gpus, "GPU")}</span></div>
    <div class="legend">${names.map((name) => html`<span><${Swatch} name=${name} />${name} ${count(last[field][name] ?? 0)}</span>`)}</div>`;
};

export const History = ({ filter }) => {
  const [found, setFound] = useState(null);
  useEffect(() => {
    const ask = async () => {
      try {
        const answer = await fetch("/history");
        if (answer.ok) setFound(await answer.json());
      } catch {
        // the header says that the server is gone; what was told stays
      }
    };
    ask();
    const timer = setInterval(ask, 30000);
    return () => clearInterval(timer);
  }, []);
  if (!found?.samples.length) return html`<${Card} title="History"><p class="empty">Nothing yet: a sample is taken every 30 seconds while the dashboard runs.</p><//>`;
  const happenings = found.happenings.filter((each) => matches(filter, { namespace: each.gang.split("/")[0] }, each.gang, each.text)).reverse();
  const hidden = found.happenings.length - happenings.length;
  return html`<${Card} title="GPUs by queue" note="since the dashboard was started, six hours at most"><${Areas} samples=${found.samples} field="queues" label="GPUs by queue over time" /><//>
    <${Card} title="GPUs by gang"><${Areas} samples=${found.samples} field="gangs" label="GPUs by gang over time" /><//>
    <${Card} title="Evictions and restarts" note="who took whose GPUs">
      ${happenings.length > 0 && html`<table><tbody>${happenings.slice(0, 100).map((each) => html`<tr><td class="soft age">${age(each.time)}</td><td><${Chip} kind=${each.what === "evicted" ? "warn" : ""}>${each.what}<//></td><td>${each.gang}</td><td>${each.text}</td></tr>`)}</tbody></table>`}
      ${hidden > 0 && html`<p class="hidden">The filter hides ${count(hidden)} of them.</p>`}
      ${!found.happenings.length && html`<p class="empty">None since the dashboard was started.</p>`}<//>`;
};
