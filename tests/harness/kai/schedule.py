"""Scheduling cases of kai: clusters that are scheduled over the wire, and the pure rules behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.errors import SchemaError
from quarterdeck.operators.kai.logic.intake import pod_group_info, priority_class_info
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.scheduler.decision import CycleResult, PodState
from quarterdeck.scheduler.intake import pod_info
from quarterdeck.scheduler.model.job import Job, is_preemptible, priority_of
from quarterdeck.scheduler.model.resource import NOTHING
from quarterdeck.scheduler.model.state import state_of
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet, build_tree
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.order.fairshare import Claim, divide
from quarterdeck.scheduler.snapshot import PodConstraints
from tests.harness.case import Case, CaseFailure
from tests.harness.registry import Kind

from .admission import KaiKind, _expect
from .compact import CompactCluster
from .invariant import INVARIANTS, History
from .stage import Observed, Stage, same_pods, settings_of
from .world import World

Json = dict[str, Any]

_LANE: Final = "kai-cluster"
_WHEN: Final = frozenset({"actions", "maxConsolidationPreemptees", "stalenessGracePeriodSeconds"})


class _StageKind(KaiKind):
    """What cases with a cluster share: there is one cluster at a time."""

    given_keys = frozenset({"nodes", "queues", "topologies", "podGroups", "pods"})

    def lane(self, case: Case) -> str:
        return _LANE

    @contextmanager
    def stage(self, case: Case, world: World) -> Iterator[Stage]:
        objects = world.connect()
        with world.namespace(objects) as namespace:
            stage = Stage(world, objects, case.given, namespace)
            try:
                stage.set()
                yield stage
            finally:
                stage.clear()


class CycleKind(_StageKind):
    """One cycle, and what became of the pods."""

    when_keys = _WHEN
    then_keys = frozenset({"pods", "allOnNodes", "detailedMessage"})

    def check(self, case: Case, world: World) -> None:
        with self.stage(case, world) as stage:
            result = stage.run_cycle(settings_of(case.when, detailed="detailedMessage" in case.then))
            seen = _with_promises(stage, stage.observe(), result)
            _check_pods(case, seen)
            _check_messages(case, stage)


class ConvergeKind(_StageKind):
    """Cycles until it should be settled, and some more in which nothing may change."""

    when_keys = _WHEN | {"cycles", "stableCycles"}
    then_keys = frozenset({"pods", "allOnNodes", "detailedMessage"})

    def check(self, case: Case, world: World) -> None:
        settings = settings_of(case.when, detailed="detailedMessage" in case.then)
        with self.stage(case, world) as stage:
            for _ in range(case.when["cycles"]):
                stage.run_cycle(settings)
                stage.advance()
            _check_pods(case, stage.observe())
            _check_messages(case, stage)
            for _ in range(case.when["stableCycles"]):
                stage.run_cycle(settings)
                stage.advance()
                _check_pods(case, stage.observe())


class InvariantKind(_StageKind):
    """Cycles, in which nothing in particular is to happen, but nothing forbidden either."""

    when_keys = _WHEN | {"cycles", "stableCycles"}
    then_keys = frozenset({"invariants"})

    def check(self, case: Case, world: World) -> None:
        unknown = [text for text in case.then["invariants"] if text not in INVARIANTS]
        if unknown:
            raise CaseFailure(*(f"{text} is not understood" for text in unknown))
        history = History(case.given)
        with self.stage(case, world) as stage:
            for _ in range(case.when["cycles"]):
                self._cycle(case, stage, history)
            history.stable.append(stage.observe())
            for _ in range(case.when["stableCycles"]):
                self._cycle(case, stage, history)
                history.stable.append(stage.observe())
        broken = [
            f"{text}: {problem}" for text in case.then["invariants"] for problem in INVARIANTS[text](history)
        ]
        if broken:
            raise CaseFailure(*broken)

    def _cycle(self, case: Case, stage: Stage, history: History) -> None:
        stage.run_cycle(settings_of(case.when))
        history.seen.append(stage.observe())
        stage.advance()


class StatusKind(_StageKind):
    """Cycles, and what they told about pods and groups that wait."""

    when_keys = _WHEN | {"cycles"}
    then_keys = frozenset({"podGroups", "pods"})

    def check(self, case: Case, world: World) -> None:
        with self.stage(case, world) as stage:
            for _ in range(case.when["cycles"]):
                stage.run_cycle(settings_of(case.when))
            seen = stage.observe()
            for name, wanted in (case.then.get("podGroups") or {}).items():
                self._check_group(stage, name, wanted)
            for name, wanted in (case.then.get("pods") or {}).items():
                _expect(f"state of {name}", wanted.get("state", seen[name].state), seen[name].state)
                self._check_pod(stage, name, wanted)

    def _check_group(self, stage: Stage, name: str, wanted: Json) -> None:
        _expect("words", set(), set(wanted) - {"schedulingCondition", "event"})
        if "schedulingCondition" in wanted:
            conditions = stage.pod_group(name).get("status", {}).get("schedulingConditions") or []
            _check_condition(stage, name, wanted["schedulingCondition"], conditions)
        if wanted.get("event"):
            stage.wait_for_event("PodGroup", name, _event(wanted["event"]))

    def _check_pod(self, stage: Stage, name: str, wanted: Json) -> None:
        _expect("words", set(), set(wanted) - {"state", "condition", "event", "node"})
        if "condition" in wanted:
            conditions = stage.pod(name)["status"].get("conditions") or []
            chosen = [each for each in conditions if each["type"] == "PodScheduled"]
            _check_condition(stage, name, wanted["condition"], chosen)
        if wanted.get("event"):
            stage.wait_for_event("Pod", name, _event(wanted["event"]))


def _event(wanted: Json) -> Mapping[str, str]:
    _expect("words of event", set(), set(wanted) - {"type", "reason", "messageContains"})
    return {{"messageContains": "note"}.get(key, key): value for key, value in wanted.items()}


def _check_condition(stage: Stage, name: str, wanted: Json | None, conditions: list[Json]) -> None:
    if wanted is None:
        _expect(f"conditions of {name}", [], conditions)
        return
    if not conditions:
        raise CaseFailure(f"{name} has no condition; expected {wanted}")
    found = conditions[-1]
    for key, value in wanted.items():
        if key == "messageContains":
            message = stage.in_case(found.get("message", ""))
            if value not in message:
                raise CaseFailure(f"{name}: the message lacks {value!r}: {message!r}")
        elif key == "reasons":
            _expect(f"reasons of {name}", value, [each["reason"] for each in found.get("reasons") or []])
        else:
            _expect(f"{key} of {name}", value, found.get(key), found)


def _with_promises(stage: Stage, seen: Mapping[str, Observed], result: CycleResult) -> dict[str, Observed]:
    """Pods that were promised a node say so in an event; otherwise they look as before."""
    states = dict(seen)
    for key, outcome in result.pods.items():
        if outcome.state is PodState.PIPELINED:
            note = f"was pipelined to node {outcome.node}"
            stage.wait_for_event("Pod", key.name, {"reason": "Pipelined", "type": "Normal", "note": note})
            states[key.name] = Observed("Pipelined", outcome.node)
    return states


def _check_pods(case: Case, seen: Mapping[str, Observed]) -> None:
    """Compare outcomes; those of pods that are alike may be swapped."""
    wanted = case.then.get("pods") or {}
    failures = []
    for names in same_pods(each for each in case.given["pods"] if each["name"] in wanted):
        left = [seen[name] for name in names]
        # The ones that name a node are matched first: the others take what is left.
        for name in sorted(names, key=lambda name: "node" not in wanted[name]):
            match = next((each for each in left if _is_as(wanted[name], each)), None)
            if match is None:
                found = {name: seen[name] for name in names}
                failures.append(f"{name}: expected {wanted[name]}; found {found}")
                break
            left.remove(match)
    allowed = case.then.get("allOnNodes")
    if allowed is not None:
        failures += [
            f"{name} is on {each.node}"
            for name, each in seen.items()
            if each.state == "Bound" and each.node not in allowed
        ]
    if failures:
        raise CaseFailure(*failures)


def _is_as(wanted: Json, seen: Observed) -> bool:
    return bool(seen.state == wanted["state"] and wanted.get("node", seen.node) == seen.node)


def _check_messages(case: Case, stage: Stage) -> None:
    for name, wanted in (case.then.get("detailedMessage") or {}).items():
        conditions = stage.pod_group(name)["status"].get("schedulingConditions") or [{}]
        _expect(f"message of {name}", wanted, stage.in_case(conditions[-1].get("message", "")))


# -- rules that need no cluster ---------------------------------------------------------------------------


class TreeKind(KaiKind):
    """A PodGroup as the scheduler's tree of subgroups."""

    given_keys = frozenset({"object"})
    when_keys = frozenset({"build"})
    then_keys = frozenset({"root", "error"})

    def check(self, case: Case, world: World) -> None:
        group = pod_group_info(from_dict(case.given["object"], PodGroup))
        try:
            root = build_tree(group)
        except SchemaError as error:
            _expect("error", case.then.get("error"), str(error))
            return
        if "error" in case.then:
            raise CaseFailure(f"expected {case.then['error']!r}; there was no error")
        _expect("root", _sorted(case.then["root"]), _sorted(_tree(root)))


def _tree(group: SubGroupSet) -> Json:
    return {
        "name": group.name,
        "groups": [_tree(child) for child in group.sets],
        "podSets": [
            {"name": leaf.name, "minAvailable": leaf.minimum, **_constraint(leaf)} for leaf in group.leaves
        ],
        **_constraint(group),
    }


def _constraint(group: SubGroupSet | Leaf) -> Json:
    constraint = group.constraint
    if constraint is None:
        return {}
    fields = {
        "topology": constraint.topology,
        "requiredTopologyLevel": constraint.required_level,
        "preferredTopologyLevel": constraint.preferred_level,
    }
    return {"topologyConstraint": {key: value for key, value in fields.items() if value}}


def _sorted(tree: Json) -> Json:
    made = dict(tree)
    made["groups"] = sorted(
        (_sorted(each) for each in tree.get("groups") or ()), key=lambda each: each["name"]
    )
    made["podSets"] = sorted(tree.get("podSets") or (), key=lambda each: each["name"])
    return made


class GangKind(KaiKind):
    """A PodGroup with its pods: what state the gang is in."""

    given_keys = frozenset({"object", "pods"})
    when_keys = frozenset({"evaluate"})
    then_keys = frozenset({"ready", "gangSatisfied", "stale", "elastic"})

    def check(self, case: Case, world: World) -> None:
        group = pod_group_info(from_dict(case.given["object"], PodGroup))
        job = Job(group, 0, None)
        compact = CompactCluster({}, 0.0, group.namespace)
        for each in case.given["pods"]:
            node = {"node": "n"} if each["state"] in ("Running", "Releasing") else {}
            pod = pod_info(compact.pod({"podGroup": group.name, **node, **each}))
            shape = Shape(NOTHING, None, PodConstraints())
            job.add(Task(pod, shape, state_of(pod, has_bind_request=False), (0, 0, 0)))
        job.seal()
        found = {
            "ready": job.is_ready,
            "gangSatisfied": job.is_gang_satisfied,
            "stale": job.is_stale,
            "elastic": job.is_elastic,
        }
        _expect("gang", case.then, {key: found[key] for key in case.then})


class PreemptibilityKind(KaiKind):
    """Whether a group may be preempted."""

    given_keys = frozenset({"preemptibility", "priority"})
    when_keys = frozenset({"evaluate"})
    then_keys = frozenset({"preemptible"})

    def check(self, case: Case, world: World) -> None:
        found = is_preemptible(case.given["preemptibility"] or "", case.given["priority"])
        _expect("preemptible", case.then["preemptible"], found)


class PriorityKind(KaiKind):
    """The priority of a group."""

    given_keys = frozenset({"object", "priorityClasses"})
    when_keys = frozenset({"evaluate"})
    then_keys = frozenset({"priority"})

    def check(self, case: Case, world: World) -> None:
        group = pod_group_info(from_dict(case.given["object"], PodGroup))
        classes = [
            priority_class_info(from_dict(each, PriorityClass)) for each in case.given["priorityClasses"]
        ]
        _expect("priority", case.then["priority"], priority_of(group, classes))


class FairShareKind(KaiKind):
    """One resource, divided between sibling queues."""

    given_keys = frozenset({"resource", "total", "queues"})
    when_keys = frozenset({"evaluate", "kValue"})
    then_keys = frozenset({"fairShare"})

    def check(self, case: Case, world: World) -> None:
        claims = [
            Claim(
                name=each["name"],
                quota=each["quota"],
                limit=each["limit"],
                weight=each["overQuotaWeight"],
                request=each["request"],
                priority=each.get("priority", 100),
                created=each.get("createdOrder", 0),
                usage=each.get("usage", 0.0),
            )
            for each in case.given["queues"]
        ]
        found, wanted = (
            divide(case.given["total"], claims, case.when.get("kValue", 1.0)),
            case.then["fairShare"],
        )
        _expect("fair share", _rounded(wanted), _rounded({name: found[name] for name in wanted}))


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares without what adding up fractions leaves in the last digits."""
    return {name: round(share, 6) for name, share in shares.items()}


KINDS: Final[Mapping[str, Kind]] = {
    "schedule-cycle": CycleKind(),
    "schedule-converge": ConvergeKind(),
    "schedule-invariants": InvariantKind(),
    "unschedulable-status": StatusKind(),
    "subgroup-tree": TreeKind(),
    "gang-state": GangKind(),
    "preemptibility": PreemptibilityKind(),
    "priority-resolution": PriorityKind(),
    "fair-share": FairShareKind(),
}
