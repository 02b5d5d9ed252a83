"""The steps of a grove case."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any, Final

from quarterdeck.api import Duration
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.initc import ArgumentError, parse_arguments
from quarterdeck.runtime.manager.manager import Manager
from tests.harness.case import CaseFailure
from tests.harness.words import FREE, Named, refuse_unknown, words

from .caseobjects import CaseObjects, Outcome
from .evidence import Evidence
from .expect import CHECKS, check
from .history import History
from .nodes import Machines
from .operator import OperatorRun
from .podstate import STATES, pod_status

__all__ = ["STEP", "Steps"]

Json = dict[str, Any]

_HORIZON: Final = 1.0
"""Delayed work that is due within these seconds is waited for."""
_QUIET: Final = 3.0
"""Seconds without a write after which whoever still looks is waiting for something."""
_LONGEST: Final = 600.0
_TICK: Final = 0.001
_LONGEST_PAUSE: Final = 0.02
_JSON_PATCH: Final = "application/json-patch+json"

_REF: Final = words("kind", "name")
_PATCH: Final = words("patch", "jsonPatch", **_REF)
STEP: Final = words(
    "note", "comment", "keepRunning",
    "apply", "applyMany", "deletePods", "podsReady", "bindPods", "advance", "restartOperator",
    "schedulableNodes", "cordonNodesAndDeletePods", "uncordonAll", "traceStart", "runInit",
    patch=_PATCH,
    jsonPatch=_PATCH,
    patchStatus=words("patch", "status", **_REF),
    scale=words("replicas", **_REF),
    delete=_REF,
    settle=frozenset({True}),
    mark=frozenset({"podUIDs", "spy"}),
    setPods=Named([frozenset(STATES)]),
    setImage=words("pcs", "cliques", "image"),
    recordWrites=[frozenset({"PodGang", "Pod"})],
    expect=dict.fromkeys(CHECKS, FREE),
)  # fmt: skip
"""The words of a step; those about pods and objects are understood where they are looked at."""


class Steps:
    """Takes the steps of one case."""

    def __init__(
        self, objects: CaseObjects, operator: OperatorRun, machines: Machines, history: History, config: Json
    ) -> None:
        self._objects: Final = objects
        self._operator: Final = operator
        self._machines: Final = machines
        self._config = config
        self._evidence: Final = Evidence(objects, operator, history)
        self._is_settled = True
        self._actions: Final[dict[str, Callable[[Any], Awaitable[None]]]] = {
            "apply": self._apply,
            "applyMany": self._apply_many,
            "patch": self._patch,
            "jsonPatch": self._patch,
            "patchStatus": self._patch_status,
            "scale": self._scale,
            "delete": self._delete,
            "deletePods": self._delete_pods,
            "settle": self._settle_step,
            "advance": self._advance,
            "restartOperator": self._restart,
            "mark": self._mark,
            "setPods": self._set_pods,
            "podsReady": self._pods_ready,
            "bindPods": self._bind_pods,
            "setImage": self._set_image,
            "schedulableNodes": self._machines.set_schedulable,
            "cordonNodesAndDeletePods": self._cordon_and_delete,
            "uncordonAll": self._uncordon,
            "traceStart": self._trace,
            "recordWrites": self._record_writes,
            "runInit": self._run_init,
        }

    async def run(self, steps: list[Json]) -> None:
        """All steps in order."""
        for number, step in enumerate(steps):
            try:
                await self._step(step, steps[number + 1] if number + 1 < len(steps) else {})
            except CaseFailure as failure:
                raise CaseFailure(f"step {number}: {next(iter(step), '')}", *failure.lines) from failure

    async def _step(self, step: Json, following: Json) -> None:
        words = step.keys() - {"note", "comment", "keepRunning"}
        if len(words) != 1:
            raise CaseFailure(f"a step with {sorted(step)} is not understood")
        word = words.pop()
        if word == "expect":
            await self._expect(step["expect"])
            return
        action = self._actions.get(word)
        if action is None:
            raise CaseFailure(f"{word} is not understood")
        self._evidence.error = ""
        await action(step[word])
        self._is_settled = word in ("settle", "advance", "mark", "traceStart", "recordWrites", "runInit")
        is_expected = "errorContains" in (following.get("expect") or {})
        if self._evidence.error and not is_expected:
            raise CaseFailure(self._evidence.error)

    async def _expect(self, wanted: Json) -> None:
        """Check; controllers that have not had their turn since the last action get it before it counts."""
        lines = await check(wanted, self._evidence)
        if lines and not self._is_settled:
            await self.settle()
            self._is_settled = True
            lines = await check(wanted, self._evidence)
        if lines:
            raise CaseFailure(*lines)

    def _judge(self, outcome: Outcome, what: str) -> None:
        if outcome.is_refused:
            self._evidence.error = f"{what}: {outcome.code}: {outcome.message}"

    @property
    def _managers(self) -> list[Manager]:
        both = (self._operator.manager, self._machines.manager)
        return [manager for manager in both if manager is not None]

    async def settle(self) -> None:
        """Let everybody work until nothing is left to do.

        Time passes only for what is due soon: who looks every few seconds for something that does not
        happen has no work.
        """
        loop = asyncio.get_running_loop()
        began = changed = loop.time()
        version = ""
        while loop.time() - began < _LONGEST:
            await self._run_until_idle()
            if await self._machines.schedule():
                continue
            now = await self._objects.version()
            if now != version:
                version, changed = now, loop.time()
            due = self._objects.server.next_due(self._managers)
            if due is None or due > loop.time() + _HORIZON or loop.time() - changed > _QUIET:
                return
            await asyncio.sleep(max(due - loop.time(), _TICK))
        raise CaseFailure(f"not settled after {_LONGEST:g} s")

    async def _run_until_idle(self) -> None:
        quiet, pause = 0, _TICK
        for _ in range(10_000):
            # A virtual loop moves its clock only when nobody can run: behind this line everybody has.
            await asyncio.sleep(pause)
            is_idle = not self._objects.server.left(self._managers)
            quiet = quiet + 1 if is_idle else 0
            pause = _TICK if is_idle else min(pause * 2, _LONGEST_PAUSE)
            if quiet >= 2:
                return
        raise CaseFailure(*self._objects.server.left(self._managers))

    async def _settle_step(self, wanted: Any) -> None:
        await self.settle()

    async def _advance(self, span: str) -> None:
        seconds = Duration(span).seconds
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(min(1.0, end - loop.time()) if self._machines.manager else end - loop.time())
            await self._machines.schedule()
        await self._run_until_idle()

    async def _apply(self, document: Json) -> None:
        name = document["metadata"]["name"]
        self._judge(await self._objects.apply(document), f"applying {document['kind']} {name}")

    async def _apply_many(self, given: Any) -> None:
        for document in _many(given):
            await self._apply(document)

    async def _patch(self, given: Json) -> None:
        body, media = given.get("patch"), ""
        if "jsonPatch" in given:
            body, media = given["jsonPatch"], _JSON_PATCH
        options = {"media": media} if media else {}
        outcome = await self._objects.patch(given["kind"], given["name"], body, **options)
        self._judge(outcome, f"patching {given['kind']} {given['name']}")

    async def _patch_status(self, given: Json) -> None:
        body = given["patch"] if "patch" in given else {"status": given["status"]}
        body = body if "status" in body else {"status": body}
        outcome = await self._objects.patch(given["kind"], given["name"], body, part="status")
        self._judge(outcome, f"patching the status of {given['kind']} {given['name']}")

    async def _scale(self, given: Json) -> None:
        body = {"spec": {"replicas": given["replicas"]}}
        outcome = await self._objects.patch(given["kind"], given["name"], body, part="scale")
        self._judge(outcome, f"scaling {given['kind']} {given['name']}")

    async def _delete(self, given: Json) -> None:
        outcome = await self._objects.request("DELETE", self._objects.path(given["kind"], given["name"]))
        self._judge(outcome, f"deleting {given['kind']} {given['name']}")

    async def _set_image(self, given: Json) -> None:
        document = await self._objects.need("PodCliqueSet", given["pcs"])
        changed = copy.deepcopy(document)
        for clique in changed["spec"]["template"]["cliques"]:
            if clique["name"] in given["cliques"]:
                for container in clique["spec"]["podSpec"]["containers"]:
                    container["image"] = given["image"]
        patch = {"spec": {"template": {"cliques": changed["spec"]["template"]["cliques"]}}}
        outcome = await self._objects.patch("PodCliqueSet", given["pcs"], patch)
        self._judge(outcome, f"changing images of {given['pcs']}")

    async def _restart(self, given: Any) -> None:
        if given is not True:
            refuse_unknown(given, words("config"), "restartOperator")
            self._config = given.get("config", self._config)
        await self._operator.stop()
        await self._operator.start(self._config)

    async def _mark(self, what: str) -> None:
        if what == "podUIDs":
            await self._evidence.mark_pods()
        else:
            self._evidence.mark_calls()

    async def _trace(self, wanted: Any) -> None:
        self._evidence.trace_from = int(await self._objects.version())

    async def _record_writes(self, kinds: list[str]) -> None:
        self._evidence.recorded_from = int(await self._objects.version())

    async def _run_init(self, arguments: list[str]) -> None:
        self._evidence.parsed = {}
        try:
            self._evidence.parsed = parse_arguments(arguments)
        except ArgumentError as error:
            self._evidence.error = str(error)

    async def _clique_pods(self, clique: str) -> list[Json]:
        """The pods of a PodClique in the order of their indices."""
        pods = await self._objects.items("Pod", f"{names.PODCLIQUE}={clique}")
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"].get(names.POD_INDEX, 0)))

    async def _set_status(self, pod: Json, state: str) -> None:
        status = pod_status(pod, state)
        outcome = await self._objects.patch("Pod", pod["metadata"]["name"], {"status": status}, part="status")
        self._judge(outcome, f"setting the status of pod {pod['metadata']['name']}")

    async def _set_pods(self, given: dict[str, list[str]]) -> None:
        changes: list[tuple[Json, str]] = []
        for clique, states in given.items():
            pods = await self._clique_pods(clique)
            if len(pods) < len(states):
                raise CaseFailure(f"{clique} has {len(pods)} pods, {len(states)} states are given")
            changes += zip(pods, states, strict=False)
        # At once: it is one thing that happens, not one after the other.
        await asyncio.gather(*(self._set_status(pod, state) for pod, state in changes))

    async def _pods_ready(self, given: Any) -> None:
        for pod in await self._chosen_pods(given):
            await self._set_status(pod, "ready")

    async def _chosen_pods(self, given: Any) -> list[Json]:
        """Pods, named in one of several ways."""
        if given is True:
            return await self._objects.items("Pod")
        if isinstance(given, str):
            selector = given if "=" in given else f"{names.PODCLIQUE}={given}"
            return await self._objects.items("Pod", selector)
        if isinstance(given, list):
            return [pod for clique in given for pod in await self._clique_pods(clique)]
        if given.keys() & {"selector", "hostnames", "pclq"}:
            refuse_unknown(given, words("selector", "hostnames", "pclq", "count"), "pods")
            selector = f"{names.PODCLIQUE}={given['pclq']}" if "pclq" in given else given.get("selector", "")
            pods = await self._objects.items("Pod", selector)
            if "hostnames" in given:
                pods = [pod for pod in pods if pod["spec"].get("hostname") in given["hostnames"]]
            return pods[: given.get("count", len(pods))]
        return [
            pod
            for clique, count in given.items()
            for pod in (await self._clique_pods(clique))[: count if count is not True else None]
        ]

    async def _bind_pods(self, given: dict[str, int]) -> None:
        for clique, count in given.items():
            pods = await self._clique_pods(clique)
            if len(pods) < count:
                raise CaseFailure(f"{clique} has {len(pods)} pods, {count} are to be bound")
            pods.sort(key=lambda pod: bool(pod["spec"].get("schedulingGates")))
            for pod in pods[:count]:
                await self._set_status(pod, "starting")

    async def _delete_pods(self, given: Any) -> None:
        pods = await self._chosen_pods(given)
        if not pods:
            raise CaseFailure(f"no pods are {given}")
        for pod in pods:
            await self._delete_pod(pod)

    async def _delete_pod(self, pod: Json) -> None:
        """Delete a pod; where no kubelet runs it goes at once."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if self._machines.manager is None:
            options["gracePeriodSeconds"] = 0
        path = self._objects.path("Pod", pod["metadata"]["name"])
        self._judge(await self._objects.request("DELETE", path, options), "deleting a pod")

    async def _cordon_and_delete(self, given: Any) -> None:
        for each in given if isinstance(given, list) else [given]:
            refuse_unknown(each, words("pclq", "count", "keepRunning"), "cordonNodesAndDeletePods")
            ready = [pod for pod in await self._clique_pods(each["pclq"]) if _is_ready(pod)]
            if len(ready) < each["count"]:
                raise CaseFailure(f"{each['pclq']} has {len(ready)} ready pods, not {each['count']}")
            for pod in ready[: each["count"]]:
                await self._machines.cordon(pod["spec"]["nodeName"])
            for pod in ready[: each["count"]]:
                await self._delete_pod(pod)

    async def _uncordon(self, wanted: Any) -> None:
        await self._machines.uncordon_all()


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _many(given: Any) -> list[Json]:
    """Objects: a list of them, or one that is made several times, ``{i}`` in its name being 0, 1, ...."""
    if isinstance(given, list):
        return given
    refuse_unknown(given, words("template", "count"), "applyMany")
    template, made = given["template"], []
    if "{i}" not in template["metadata"]["name"]:
        raise CaseFailure("applyMany: all objects have the same name")
    for number in range(given["count"]):
        document = copy.deepcopy(template)
        document["metadata"]["name"] = template["metadata"]["name"].replace("{i}", str(number))
        made.append(document)
    return made
