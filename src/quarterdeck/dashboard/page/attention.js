// What needs attention: the problems that the health model finds, the worst first, the same reason once.
import { html, useState } from "/vendor/htm-preact.js";
import { derived, health, matches } from "/store.js";
import { Empty, ObjectLink, State } from "/part.js";
import { age, plural, withGangNames } from "/format.js";

const FEW = 4;

export const problems = derived("problems", (rows) => Object.values(rows).sort((a, b) => a.place - b.place));

const byObject = derived("problems", () => {
  const found = new Map();
  for (const problem of problems()) {
    for (const { kind, namespace, name } of problem.subjects) {
      const key = `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
      if (!found.has(key)) found.set(key, []);
      if (!found.get(key).includes(problem)) found.get(key).push(problem);
    }
  }
  return found;
});

export const problemsOf = (kind, key) => byObject().get(`${kind} ${key}`) ?? [];

const isShown = (filter, problem) =>
  (!filter.severity || problem.severity === filter.severity)
  && problem.subjects.some((each) => matches(
    filter, { namespace: each.namespace || undefined, queue: each.queue || undefined },
    problem.reason, problem.situation, each.kind, each.namespace, each.name,
  ));

export const Problem = ({ problem, open }) => {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? problem.subjects : problem.subjects.slice(0, FEW);
  return html`<div class="problem ${problem.severity}">
    <div class="head"><${State} value=${problem.severity} /><b>${withGangNames(problem.head)}</b>
      ${problem.since && Date.parse(problem.since) < Date.now() && html`<span class="soft">for ${age(problem.since)}</span>`}</div>
    <p>${problem.reason}</p>
    <p class="soft">to do: ${problem.remedy}</p>
    <div class="subjects">${shown.map((each) => html`<${ObjectLink} object=${each} open=${open} />`)}
      ${problem.subjects.length > FEW && html`<button class="link" onClick=${() => setWhole(!isWhole)}>${isWhole ? "fewer" : `${plural(problem.count - FEW, "other")}`}</button>`}
      ${isWhole && problem.count > problem.subjects.length && html`<span class="soft">and ${problem.count - problem.subjects.length} more</span>`}</div>
  </div>`;
};

export const Attention = ({ filter, clear, open, most = Infinity }) => {
  const all = problems();
  const found = all.filter((problem) => isShown(filter, problem));
  const hidden = all.length - found.length;
  const { unknown } = health();
  return html`
    ${found.slice(0, most).map((problem) => html`<${Problem} key=${problem.situation + problem.reason} problem=${problem} open=${open} />`)}
    ${found.length > most && html`<p class="soft">and ${plural(found.length - most, "other")}: see Problems</p>`}
    ${hidden > 0 && html`<p class="hidden">The filter hides ${plural(hidden, "problem")}. <button class="link" onClick=${clear}>Show everything</button></p>`}
    ${!all.length && (unknown.length ? html`<p class="empty">Not everything has been read yet.</p>` : html`<${Empty}>Nothing is wrong.<//>`)}`;
};
