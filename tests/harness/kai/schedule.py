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
from quarterdeck.scheduler.model.fairshare import Claim, divide
from quarterdeck.scheduler.model.job import Job, is_preemptible, priority_of
from quarterdeck.scheduler.model.state import state_of
from quarterdeck.scheduler.model.subgroup import Leaf, SubGroupSet, build_tree
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.resource import NOTHING
from quarterdeck.scheduler.settings import Action
from quarterdeck.scheduler.snapshot import PodConstraints
from tests.harness.case import Case, CaseFailure, expect_equal
from tests.harness.matching import mismatches
from tests.harness.registry import Kind
from tests.harness.words import Named, words

from .admission import KaiKind
from .casecluster import CaseCluster, Observed, same_pods, settings_of
from .compact import CLUSTER, NODE, POD, CompactCluster
from .invariant import INVARIANTS, History
from .server import KaiServer

Json = dict[str, Any]

_LANE: Final = "kai-cluster"
_WHEN: Final = words(
    "maxConsolidationPreemptees",
    "stalenessGracePeriodSeconds",
    actions=[frozenset(each.value for each in Action)],
)
_OUTCOME: Final = words(
    "node", state=frozenset({"Bound", "Pending", "Pipelined", "Releasing", "Failed", "Succeeded"})
)
_OUTCOMES: Final = words("allOnNodes", "detailedMessage", pods=Named(_OUTCOME))
_EVENT: Final = words("type", "reason", "messageContains")
_CONDITION: Final = words(
    "type", "status", "reason", "nodePool", "transitionID", "reasons", "message", "messageContains",
    "messageStartsWith",
)  # fmt: skip


class _ClusterKind(KaiKind):
    """What cases with a cluster share: there is one cluster at a time."""

    given = CLUSTER

    def lane(self, case: Case) -> str:
        return _LANE

    @contextmanager
    def cluster(self, case: Case, server: KaiServer) -> Iterator[CaseCluster]:
        objects = server.connect()
        with server.namespace(objects) as namespace:
            cluster = CaseCluster(server, objects, case.given, namespace)
            try:
                cluster.set()
                yield cluster
            finally:
                cluster.clear()


class CycleKind(_ClusterKind):
    """One cycle, and what became of the pods."""

    when = _WHEN
    then = _OUTCOMES

    def check(self, case: Case, server: KaiServer) -> None:
        with self.cluster(case, server) as cluster:
            result = cluster.run_cycle(settings_of(case.when, detailed="detailedMessage" in case.then))
            seen = _with_promises(cluster, cluster.observe(), result)
            _check_pods(case, seen)
            _check_messages(case, cluster)


class ConvergeKind(_ClusterKind):
    """Cycles until it should be settled, and some more in which nothing may change."""

    when = words("cycles", "stableCycles", **_WHEN)
    then = _OUTCOMES

    def check(self, case: Case, server: KaiServer) -> None:
        settings = settings_of(case.when, detailed="detailedMessage" in case.then)
        with self.cluster(case, server) as cluster:
            for _ in range(case.when["cycles"]):
                cluster.run_cycle(settings)
                cluster.advance()
            _check_pods(case, cluster.observe())
            _check_messages(case, cluster)
            for _ in range(case.when["stableCycles"]):
                cluster.run_cycle(settings)
                cluster.advance()
                _check_pods(case, cluster.observe())


class InvariantKind(_ClusterKind):
    """Cycles, in which nothing in particular is to happen, but nothing forbidden either."""

    when = words("cycles", "stableCycles", **_WHEN)
    then = words(invariants=[frozenset(INVARIANTS)])

    def check(self, case: Case, server: KaiServer) -> None:
        by_memory = [each["name"] for each in case.given["pods"] if "gpuMemory" in each]
        if by_memory:  # what such a pod takes depends on its node
            raise CaseFailure(f"gpuMemory of {by_memory} is not understood in statements")
        history = History(case.given)
        with self.cluster(case, server) as cluster:
            for _ in range(case.when["cycles"]):
                self._cycle(case, cluster, history)
            history.stable.append(cluster.observe())
            for _ in range(case.when["stableCycles"]):
                self._cycle(case, cluster, history)
                history.stable.append(cluster.observe())
        broken = [
            f"{text}: {problem}" for text in case.then["invariants"] for problem in INVARIANTS[text](history)
        ]
        if broken:
            raise CaseFailure(*broken)

    def _cycle(self, case: Case, cluster: CaseCluster, history: History) -> None:
        history.before.append(cluster.observe())
        cluster.run_cycle(settings_of(case.when))
        history.seen.append(cluster.observe())
        cluster.advance()


class StatusKind(_ClusterKind):
    """Cycles, and what they told about pods and groups that wait."""

    when = words("cycles", addNodesBeforeCycle=Named([NODE]), **_WHEN)
    then = words(
        podGroups=Named(words("annotations", schedulingCondition=_CONDITION, event=_EVENT)),
        pods=Named(
            words(
                condition=_CONDITION,
                event=_EVENT,
                bindRequest=words("name", "spec", "labels"),
                **_OUTCOME,
            )
        ),
    )

    def check(self, case: Case, server: KaiServer) -> None:
        with self.cluster(case, server) as cluster:
            for number in range(1, case.when["cycles"] + 1):
                cluster.add_nodes((case.when.get("addNodesBeforeCycle") or {}).get(str(number)) or ())
                cluster.run_cycle(settings_of(case.when))
            _check_pods(case, cluster.observe())
            for name, wanted in (case.then.get("podGroups") or {}).items():
                self._check_group(cluster, name, wanted)
            for name, wanted in (case.then.get("pods") or {}).items():
                self._check_pod(cluster, name, wanted)

    def _check_group(self, cluster: CaseCluster, name: str, wanted: Json) -> None:
        group = cluster.pod_group(name)
        if "schedulingCondition" in wanted:
            conditions = group.get("status", {}).get("schedulingConditions") or []
            _check_condition(cluster, name, wanted["schedulingCondition"], conditions)
        if wanted.get("event"):
            cluster.wait_for_event("PodGroup", name, _event(wanted["event"]))
        missing = set(wanted.get("annotations") or ()) - (group["metadata"].get("annotations") or {}).keys()
        expect_equal(f"missing annotations of {name}", set(), missing)

    def _check_pod(self, cluster: CaseCluster, name: str, wanted: Json) -> None:
        if "condition" in wanted:
            conditions = cluster.pod(name)["status"].get("conditions") or []
            chosen = [each for each in conditions if each["type"] == "PodScheduled"]
            _check_condition(cluster, name, wanted["condition"], chosen)
        if wanted.get("event"):
            cluster.wait_for_event("Pod", name, _event(wanted["event"]))
        if "bindRequest" in wanted:
            request, expected = cluster.bind_request(name), wanted["bindRequest"]
            found = {
                "name": request["metadata"]["name"],
                "labels": request["metadata"].get("labels") or {},
                "spec": request["spec"],
            }
            failures = mismatches(expected, found, path=f"bindRequest of {name}")
            if failures:
                raise CaseFailure(*failures)


def _event(wanted: Json) -> Mapping[str, str]:
    return {{"messageContains": "note"}.get(key, key): value for key, value in wanted.items()}


def _check_condition(cluster: CaseCluster, name: str, wanted: Json | None, conditions: list[Json]) -> None:
    if wanted is None:
        expect_equal(f"conditions of {name}", [], conditions)
        return
    if not conditions:
        raise CaseFailure(f"{name} has no condition; expected {wanted}")
    found = conditions[-1]
    for key, value in wanted.items():
        if key in ("messageContains", "messageStartsWith"):
            message = cluster.in_case(found.get("message", ""))
            if not (message.startswith(value) if key == "messageStartsWith" else value in message):
                raise CaseFailure(f"{name}: {key} {value!r} does not hold of {message!r}")
        elif key == "reasons":
            expect_equal(f"reasons of {name}", value, [each["reason"] for each in found.get("reasons") or []])
        else:
            expect_equal(f"{key} of {name}", value, found.get(key), found)


def _with_promises(
    cluster: CaseCluster, seen: Mapping[str, Observed], result: CycleResult
) -> dict[str, Observed]:
    """Pods that were promised a node say so in an event; otherwise they look as before."""
    states = dict(seen)
    for key, outcome in result.pods.items():
        if outcome.state is PodState.PIPELINED:
            note = f"was pipelined to node {outcome.node}"
            cluster.wait_for_event("Pod", key.name, {"reason": "Pipelined", "type": "Normal", "note": note})
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
    return bool(wanted.get("state", seen.state) == seen.state and wanted.get("node", seen.node) == seen.node)


def _check_messages(case: Case, cluster: CaseCluster) -> None:
    for name, wanted in (case.then.get("detailedMessage") or {}).items():
        conditions = cluster.pod_group(name)["status"].get("schedulingConditions") or [{}]
        expect_equal(f"message of {name}", wanted, cluster.in_case(conditions[-1].get("message", "")))


class TreeKind(KaiKind):
    """A PodGroup as the scheduler's tree of subgroups."""

    given = words("object")
    when = words("build")
    then = words("root", "error")

    def check(self, case: Case, server: KaiServer) -> None:
        group = pod_group_info(from_dict(case.given["object"], PodGroup))
        try:
            root = build_tree(group)
        except SchemaError as error:
            expect_equal("error", case.then.get("error"), str(error))
            return
        if "error" in case.then:
            raise CaseFailure(f"expected {case.then['error']!r}; there was no error")
        expect_equal("root", _sorted(case.then["root"]), _sorted(_tree(root)))


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

    given = words("object", pods=[words("name", "subGroup", "gated", state=POD["state"])])
    when = words("evaluate")
    then = words("ready", "gangSatisfied", "stale", "elastic")

    def check(self, case: Case, server: KaiServer) -> None:
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
        expect_equal("gang", case.then, {key: found[key] for key in case.then})


class PreemptibilityKind(KaiKind):
    """Whether a group may be preempted."""

    given = words("preemptibility", "priority")
    when = words("evaluate")
    then = words("preemptible")

    def check(self, case: Case, server: KaiServer) -> None:
        found = is_preemptible(case.given["preemptibility"] or "", case.given["priority"])
        expect_equal("preemptible", case.then["preemptible"], found)


class PriorityKind(KaiKind):
    """The priority of a group."""

    given = words("object", "priorityClasses")
    when = words("evaluate")
    then = words("priority")

    def check(self, case: Case, server: KaiServer) -> None:
        group = pod_group_info(from_dict(case.given["object"], PodGroup))
        classes = [
            priority_class_info(from_dict(each, PriorityClass)) for each in case.given["priorityClasses"]
        ]
        expect_equal("priority", case.then["priority"], priority_of(group, classes))


class FairShareKind(KaiKind):
    """One resource, divided between sibling queues."""

    given = words(
        "resource",
        "total",
        queues=[
            words("name", "quota", "limit", "overQuotaWeight", "request", "priority", "createdOrder", "usage")
        ],
    )
    when = words("evaluate", "kValue")
    then = words("fairShare")

    def check(self, case: Case, server: KaiServer) -> None:
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
        expect_equal("fair share", _rounded(wanted), _rounded({name: found[name] for name in wanted}))


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
