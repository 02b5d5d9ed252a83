// Training jobs with progress and logs, inference services with their start order and updates.
import { html, useState } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Bar, Card, Chip, Empty, ObjectLink, OpenerRow, State, matches } from "/part.js";
import { Problem, problemsOf } from "/attention.js";
import { Log } from "/object.js";
import { age, duration, plural } from "/format.js";

const Progress = ({ job }) => job.progress == null
  ? html`<span class="soft">no report</span>`
  : html`<div><${Bar} value=${job.progress} of=${100} label="progress" tone=${job.state === "Complete" ? "good" : "use"} />
      <span class="soft mono">${job.progress} %${job.remaining ? `, ${duration(job.remaining)} left` : ""}</span></div>`;

export const Trainings = ({ filter, open }) => {
  const all = Object.entries(state.trainings);
  const jobs = all.filter(([key, job]) => matches(filter, { namespace: job.namespace, queue: state.gangs[job.gang]?.queue }, key, job.runtime, job.state)).sort();
  if (!jobs.length) return html`<${Empty} source=${state.sources.trainjobs} hidden=${all.length}>No TrainJobs: the trainings of this cluster are listed here.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="trainings"><table>
    <thead><tr><th>TrainJob</th><th>state</th><th>progress</th><th>runtime</th><th>pods</th><th>metrics</th><th class="number">age</th></tr></thead>
    <tbody>${jobs.map(([key, job]) => html`
      <${OpenerRow} key=${key} open=${() => open({ kind: "training", key })} name=${html`<span class="soft">${job.namespace}/</span>${job.name}`}>
        <td><${State} value=${job.state} /></td>
        <td><${Progress} job=${job} /></td>
        <td class="soft">${job.runtime}</td>
        <td>${job.pods.length}</td>
        <td class="mono">${job.metrics.slice(0, 3).map(([name, value]) => html`<div>${name} ${value}</div>`)}</td>
        <td class="number soft">${age(job.since)}</td>
      <//>`)}</tbody></table></div>`;
};

export const TrainingDetail = ({ id, open }) => {
  const [chosen, choose] = useState("");
  const job = state.trainings[id];
  if (!job) return html`<h2>${id}</h2><p class="empty">It is gone.</p>`;
  const pod = job.pods.find((each) => each.name === chosen) ?? job.pods[0];
  return html`
    <h2>${job.name}</h2>
    <div class="facts"><${State} value=${job.state} /><span>namespace ${job.namespace}</span><span>runtime ${job.runtime}</span><span>${age(job.since)} old</span></div>
    ${problemsOf("TrainJob", id).map((problem) => html`<${Problem} problem=${problem} open=${open} />`)}
    ${job.message && html`<p class="soft">${job.message}</p>`}
    <h3>Progress</h3><${Progress} job=${job} />
    ${job.metrics.length > 0 && html`<h3>Metrics</h3><table><tbody>${job.metrics.map(([name, value]) => html`<tr><td>${name}</td><td class="number mono">${value}</td></tr>`)}</tbody></table>`}
    ${job.jobs.length > 0 && html`<h3>Jobs</h3><table><thead><tr><th>job</th><th class="number">active</th><th class="number">ready</th><th class="number">succeeded</th><th class="number">failed</th></tr></thead>
      <tbody>${job.jobs.map((each) => html`<tr><td>${each.name}</td><td class="number">${each.active}</td><td class="number">${each.ready}</td><td class="number">${each.succeeded}</td><td class="number">${each.failed}</td></tr>`)}</tbody></table>`}
    <h3>Pods</h3>
    ${job.pods.length ? html`<table><tbody>${job.pods.map((each) => html`
      <tr><td><button class="opener link" onClick=${() => choose(each.name)} aria-label="log of ${each.name}">${each.name}</button></td><td><${State} value=${each.phase} /></td><td class="soft">${each.node}</td>
        <td><${ObjectLink} object=${{ kind: "Pod", namespace: job.namespace, name: each.name }} open=${open} /></td></tr>`)}</tbody></table>` : html`<p class="empty">None.</p>`}
    ${pod && html`<${Log} key=${pod.name} namespace=${job.namespace} pod=${pod.name} containers=${pod.containers} />`}
    <h3>The object</h3><${ObjectLink} object=${{ kind: "TrainJob", namespace: job.namespace, name: job.name }} open=${open} />`;
};

const ORDERS = {
  CliqueStartupTypeInOrder: "one role after the other",
  CliqueStartupTypeExplicit: "as the roles say",
  CliqueStartupTypeAnyOrder: "all roles at once",
};

const Role = ({ name, cliques }) => {
  const mine = cliques.filter((each) => each.role === name || each.name.endsWith(`-${name}`));
  const sum = (field) => mine.reduce((total, each) => total + each[field], 0);
  const replicas = sum("replicas"), ready = sum("ready"), placed = sum("scheduled");
  const dots = Array.from({ length: Math.min(replicas, 64) }, (_, place) => (place < ready ? "ready" : place < placed ? "placed" : ""));
  return html`<div class="role"><div class="head"><span>${name}</span><span class="soft">${ready} of ${replicas}</span></div>
    <div class="dots">${dots.map((kind) => html`<i class=${kind}></i>`)}</div></div>`;
};

export const Inference = ({ filter, open }) => {
  const all = Object.entries(state.inference);
  const sets = all.filter(([key, each]) => matches(filter, { namespace: each.namespace }, key)).sort();
  if (!sets.length) return html`<${Card}><${Empty} source=${state.sources.podcliquesets} hidden=${all.length}>No PodCliqueSets: the inference services of this cluster are listed here.<//><//>`;
  return sets.map(([key, each]) => html`
    <${Card} key=${key} title=${key} note="starts ${ORDERS[each.order] ?? "all roles at once"} · ${age(each.since)} old">
      <div class="facts"><${Chip} kind=${each.available >= each.replicas ? "good" : each.available ? "warn" : "bad"}>${each.available} of ${plural(each.replicas, "replica")} available<//>
        ${each.updating ? html`<${Chip} kind="busy">updating: ${each.updating.done} of ${each.updating.of} parts<//>` : html`<${Chip}>up to date<//>`}
        ${each.groups.map((group) => html`<${Chip}>group ${group.name}: ${group.available} of ${group.replicas}<//>`)}</div>
      ${each.updating && html`<${Bar} value=${each.updating.done} of=${each.updating.of} label="update" />`}
      <div class="stages">${each.stages.map((roles, place) => html`
        ${place > 0 && html`<div class="arrow">→</div>`}
        <div class="stage">${roles.map((name) => html`<${Role} name=${name} cliques=${each.cliques} />`)}</div>`)}</div>
      <div class="subjects"><${ObjectLink} object=${{ kind: "PodCliqueSet", namespace: each.namespace, name: each.name }} open=${open} />
        ${each.cliques.slice(0, 24).map((clique) => html`<${ObjectLink} object=${{ kind: "PodClique", namespace: clique.namespace, name: clique.name }} open=${open} />`)}</div>
      ${each.errors.map((text) => html`<p class="empty bad">${text}</p>`)}
    <//>`);
};
