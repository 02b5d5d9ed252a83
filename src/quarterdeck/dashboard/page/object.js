// Any object by its address: what is wrong with it, its state, events, owners, children, logs, YAML and commands.
import { html, useEffect, useRef, useState } from "/vendor/htm-preact.js";
import { state } from "/store.js";
import { Chip, ObjectLink, State } from "/part.js";
import { Problem, problemsOf } from "/attention.js";
import { age, count, natural } from "/format.js";

export const Log = ({ namespace, pod, containers }) => {
  const [container, choose] = useState(containers[containers.length - 1] ?? "");
  const [previous, setPrevious] = useState(false);
  const [text, setText] = useState("");
  const box = useRef(null);
  useEffect(() => {
    const stop = new AbortController();
    setText("");
    (async () => {
      try {
        const answer = await fetch(`/log?${new URLSearchParams({ namespace, pod, container, previous })}`, { signal: stop.signal });
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let part = await reader.read(); !part.done; part = await reader.read()) setText((old) => (old + part.value).slice(-200000));
      } catch (error) {
        if (!stop.signal.aborted) setText((old) => `${old}\n${error}`);
      }
    })();
    return () => stop.abort();
  }, [namespace, pod, container, previous]);
  useEffect(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; }, [text]);
  return html`<h3>Log of ${pod}</h3><div class="choices">
      ${containers.length > 1 && containers.map((each) => html`<button aria-pressed=${each === container} onClick=${() => choose(each)}>${each}</button>`)}
      <button aria-pressed=${!previous} onClick=${() => setPrevious(false)}>follow</button>
      <button aria-pressed=${previous} onClick=${() => setPrevious(true)}>previous run</button></div>
    <pre ref=${box} class="mono" tabindex="0" aria-label="log of ${pod}">${text || "no log yet"}</pre>`;
};

const Command = ({ text }) => {
  const [isCopied, setCopied] = useState(false);
  return html`<div class="command"><code>${text}</code><button aria-label="copy ${text}" onClick=${async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  }}>${isCopied ? "copied" : "copy"}</button></div>`;
};

const Conditions = ({ conditions }) => html`<h3>Conditions</h3><div class="scroll" tabindex="0" role="region" aria-label="conditions"><table>
  <thead><tr><th>condition</th><th>status</th><th>reason</th><th>message</th><th>since</th></tr></thead>
  <tbody>${conditions.map((each) => html`<tr><td>${each.type}</td><td>${each.status}</td><td>${each.reason}</td><td>${each.message}</td><td class="age soft">${age(each.lastTransitionTime)}</td></tr>`)}</tbody></table></div>`;

const Guests = ({ node, open }) => html`<h3>GPUs: ${count(node.guests.reduce((sum, guest) => sum + guest.gpus, 0))} of ${node.gpus} in use</h3>
  <table><tbody>${[...node.guests].sort((a, b) => natural(a.pod, b.pod)).map((guest) => html`<tr>
    <td><${ObjectLink} object=${{ kind: "Pod", namespace: guest.gang.split("/")[0], name: guest.pod }} open=${open} /></td>
    <td class="number">${count(guest.gpus)} GPU${guest.gpus === 1 ? "" : "s"}</td></tr>`)}</tbody></table>`;

export const ObjectDetail = ({ kind, version, id, open }) => {
  const [found, setFound] = useState(null);
  const place = id.indexOf("/");
  const namespace = place < 0 ? "" : id.slice(0, place), name = id.slice(place + 1);
  const wrong = problemsOf(kind, id);
  useEffect(() => {
    let isOver = false;
    const ask = async () => {
      try {
        const answer = await fetch(`/object?${new URLSearchParams({ kind, apiVersion: version, namespace, name })}`);
        const next = answer.ok ? await answer.json() : { error: await answer.text() };
        if (!isOver) setFound(next);
      } catch (error) {
        if (!isOver) setFound({ error: String(error) });
      }
    };
    ask();
    const timer = setInterval(ask, 5000);
    return () => { isOver = true; clearInterval(timer); };
  }, [kind, version, id]);
  const node = kind === "Node" && state.nodes[name];
  return html`<h2><span class="soft">${kind}</span> ${id}</h2>
    ${wrong.map((problem) => html`<${Problem} problem=${problem} open=${open} />`)}
    ${found === null && html`<p class="empty">Loading…</p>`}
    ${found?.error && html`<p class="empty bad">${found.error}</p>`}
    ${found && !found.error && html`
      <div class="facts">${found.state && html`<${State} value=${found.state} />`}${found.deleting && html`<${Chip} kind="warn">being deleted<//>`}<span>${age(found.since)} old</span><span>${found.apiVersion}</span></div>
      ${node && html`<${Guests} node=${node} open=${open} />`}
      ${found.owners.length > 0 && html`<h3>Owned by</h3>${found.owners.map((each) => html`<div><${ObjectLink} object=${each} open=${open} /></div>`)}`}
      ${found.children.length > 0 && html`<h3>Owns</h3><table><tbody>${found.children.map((each) => html`<tr><td><${ObjectLink} object=${each} open=${open} /></td><td>${each.state && html`<${State} value=${each.state} />`}</td></tr>`)}</tbody></table>`}
      ${found.conditions.length > 0 && html`<${Conditions} conditions=${found.conditions} />`}
      <h3>Events</h3>${found.events.length ? html`<table><tbody>${found.events.map((event) => html`<tr><td class="soft age">${age(event.time)}</td><td><${Chip} kind=${event.type === "Warning" ? "warn" : ""}>${event.reason}<//></td><td>${event.message}</td></tr>`)}</tbody></table>` : html`<p class="empty">None.</p>`}
      ${found.containers.length > 0 && html`<${Log} key=${id} namespace=${namespace} pod=${name} containers=${found.containers} />`}
      <h3>On the command line</h3>${found.commands.map((text) => html`<${Command} key=${text} text=${text} />`)}
      <h3>YAML</h3><pre class="mono" tabindex="0" aria-label="YAML">${found.yaml}</pre>`}`;
};
