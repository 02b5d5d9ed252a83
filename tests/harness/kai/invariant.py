"""What must hold of every schedule, checked on what the API showed after each cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Quantity

from .casecluster import Observed

Json = dict[str, Any]
Pods = Mapping[str, Observed]

_UNLIMITED: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_MEGABYTE: Final = 10**6


class History:
    """A case, and its pods after each cycle."""

    def __init__(self, given: Json) -> None:
        self.given: Final = given
        self.pods: Final = {each["name"]: each for each in given["pods"]}
        self.groups: Final = {each["name"]: each for each in given["podGroups"]}
        self.queues: Final = {each["name"]: each for each in given["queues"]}
        self.nodes: Final = {each["name"]: each for each in given["nodes"]}
        self.before: list[Pods] = []
        """Before each cycle."""
        self.seen: list[Pods] = []
        """After each cycle, before anybody reacts."""
        self.stable: list[Pods] = []
        """Before and after each of the cycles in which nothing may change."""

    @property
    def final(self) -> Pods:
        return self.stable[-1] if self.stable else self.seen[-1]

    def is_preemptible(self, group: Json) -> bool:
        stated = group.get("preemptibility")
        return bool(stated == "preemptible" if stated else group["priority"] < 100)

    def chain(self, queue: str) -> Iterator[Json]:
        """A queue and its ancestors, as far as they exist."""
        found = self.queues.get(queue)
        while found is not None:
            yield found
            found = self.queues.get(found.get("parentQueue", ""))

    def used(self, pods: Pods, *, only_fixed: bool = False) -> dict[str, list[float]]:
        """What bound pods take, by queue."""
        used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for name, seen in pods.items():
            group = self.groups[self.pods[name]["podGroup"]]
            if seen.state != "Bound" or (only_fixed and self.is_preemptible(group)):
                continue
            for queue in self.chain(group["queue"]):
                _add(used[queue["name"]], request_of(self.pods[name]))
        return used


def request_of(pod: Json) -> tuple[float, float, float]:
    """CPU in milli-cores, memory in bytes, GPUs."""
    gpus = float(pod.get("gpu") or pod.get("gpuFraction") or 0)
    if pod.get("bestEffort"):
        return (0.0, 0.0, gpus)
    cpu, memory = Quantity(str(pod.get("cpu", "1"))), Quantity(str(pod.get("memory", "1G")))
    return (cpu.milli_value, memory.value, gpus)


def capacity_of(node: Json) -> tuple[float, float, float]:
    """The same of a node."""
    return (
        Quantity(str(node.get("cpu", "20000"))).milli_value,
        Quantity(str(node.get("memory", "20G"))).value,
        float(node.get("gpus") or 0),
    )


def bounds_of(queue: Json, kind: str) -> tuple[float, float, float]:
    """Quota or limit of a queue in the same units; infinite if unlimited."""
    amounts = []
    for name, unit in (("cpu", 1), ("memory", _MEGABYTE), ("gpu", 1)):
        value = (queue.get(name) or _UNLIMITED).get(kind, 0)
        amounts.append(float("inf") if value == -1 else float(value) * unit)
    return (amounts[0], amounts[1], amounts[2])


def _add(account: list[float], amounts: Sequence[float]) -> None:
    for index, amount in enumerate(amounts):
        account[index] += amount


def _exceeds(account: Sequence[float], bounds: Sequence[float]) -> bool:
    return any(has > bound + 1e-9 for has, bound in zip(account, bounds, strict=True))


def nodes_hold(history: History) -> Iterator[str]:
    for cycle, pods in enumerate(history.seen):
        used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        counts: dict[str, int] = defaultdict(int)
        for name, seen in pods.items():
            if seen.node and seen.state in ("Bound", "Releasing"):
                _add(used[seen.node], request_of(history.pods[name]))
                counts[seen.node] += 1
        for name, node in history.nodes.items():
            if _exceeds(used[name], capacity_of(node)) or counts[name] > node.get("pods", 110):
                yield f"cycle {cycle}: {name} holds {used[name]} in {counts[name]} pods"


def limits_hold(history: History) -> Iterator[str]:
    for cycle, pods in enumerate(history.seen):
        for name, used in history.used(pods).items():
            if _exceeds(used, bounds_of(history.queues[name], "limit")):
                yield f"cycle {cycle}: {name} has {used}"


def quotas_hold(history: History) -> Iterator[str]:
    for cycle, pods in enumerate(history.seen):
        for name, used in history.used(pods, only_fixed=True).items():
            if _exceeds(used, bounds_of(history.queues[name], "quota")):
                yield f"cycle {cycle}: {name} has {used} that cannot be preempted"


def fixed_pods_stay(history: History) -> Iterator[str]:
    for name, pod in history.pods.items():
        if history.is_preemptible(history.groups[pod["podGroup"]]):
            continue
        was_bound = pod["state"] in ("Running", "Bound")
        for cycle, pods in enumerate(history.seen):
            if was_bound and pods[name].state == "Releasing":
                yield f"cycle {cycle}: {name} was evicted"
            was_bound = was_bound or pods[name].state == "Bound"


def gangs_are_whole(history: History) -> Iterator[str]:
    for group in history.groups.values():
        if _is_torn(history, group, history.final):
            yield f"{group['name']} runs {_bound(history, group, history.final)} of {_leaves(group)}"


def gangs_start_whole(history: History) -> Iterator[str]:
    for cycle, (before, after) in enumerate(zip(history.before, history.seen, strict=True)):
        for group in history.groups.values():
            if not any(_bound(history, group, before).values()) and _is_torn(history, group, after):
                started = _bound(history, group, after)
                yield f"cycle {cycle}: {group['name']} started with {started} of {_leaves(group)}"


def _bound(history: History, group: Json, pods: Pods) -> dict[str, int]:
    """The number of bound pods of each leaf of a group, and of those that name no leaf of it."""
    counts = dict.fromkeys(_leaves(group), 0)
    for name, pod in history.pods.items():
        if pod["podGroup"] == group["name"] and pods[name].state == "Bound":
            leaf = pod.get("subGroup", "default")
            counts[leaf] = counts.get(leaf, 0) + 1
    return counts


def _is_torn(history: History, group: Json, pods: Pods) -> bool:
    """Whether a group has bound pods, but too few in some leaf."""
    counts = _bound(history, group, pods)
    return any(counts.values()) and any(counts[leaf] < least for leaf, least in _leaves(group).items())


def _leaves(group: Json) -> dict[str, int]:
    subgroups = group.get("subGroups") or ()
    parents = {each.get("parent") for each in subgroups}
    leaves = {
        each["name"]: max(each.get("minMember", 1), 1) for each in subgroups if each["name"] not in parents
    }
    return leaves or {"default": max(group.get("minMember", 1), 1)}


def domains_hold(history: History) -> Iterator[str]:
    topologies = {each["name"]: each["levels"] for each in history.given.get("topologies") or ()}
    for group in history.groups.values():
        constraint = group.get("topologyConstraint") or {}
        level = constraint.get("requiredTopologyLevel")
        if not level:
            continue
        levels = topologies[constraint["topology"]]
        above = levels[: levels.index(level) + 1]
        domains = set()
        for name, pod in history.pods.items():
            seen = history.final[name]
            if pod["podGroup"] == group["name"] and seen.state == "Bound":
                labels = history.nodes[seen.node].get("labels") or {}
                domains.add(tuple(labels.get(each) for each in above))
        if len(domains) > 1:
            yield f"{group['name']} is in {sorted(map(str, domains))}"


def nothing_changes(history: History) -> Iterator[str]:
    for cycle, (before, after) in enumerate(zip(history.stable, history.stable[1:], strict=False)):
        for name in before:
            if before[name] != after[name]:
                yield f"stable cycle {cycle}: {name} was {before[name]}, is {after[name]}"


def nobody_waits_in_vain(history: History) -> Iterator[str]:
    for group in history.groups.values():
        missing = _missing(history, group)
        if missing and _fits(history, missing) and _passes(history, group, missing):
            yield f"{group['name']} waits although {len(missing)} pods of {missing[0]} would fit"


def _missing(history: History, group: Json) -> list[tuple[float, float, float]]:
    """The requests of the pods that a wholly pending gang needs, if they are all of one size."""
    if group.get("topologyConstraint") or any(
        each.get("topologyConstraint") for each in group.get("subGroups") or ()
    ):
        return []
    members = [pod for pod in history.pods.values() if pod["podGroup"] == group["name"]]
    if any(history.final[pod["name"]].state != "Pending" for pod in members):
        return []
    requests: list[tuple[float, float, float]] = []
    for leaf, least in _leaves(group).items():
        ready = [p for p in members if p.get("subGroup", "default") == leaf and not p.get("gated")]
        if len(ready) < least:
            return []
        requests += [request_of(pod) for pod in ready[:least]]
    return requests if len(set(requests)) == 1 else []


def _fits(history: History, requests: Sequence[tuple[float, float, float]]) -> bool:
    room = 0
    for name, node in history.nodes.items():
        free = list(capacity_of(node))
        slots = node.get("pods", 110)
        for pod, seen in history.final.items():
            if seen.node == name and seen.state in ("Bound", "Releasing"):
                _add(free, [-amount for amount in request_of(history.pods[pod])])
                slots -= 1
        counts = [int(has // need) for has, need in zip(free, requests[0], strict=True) if need]
        room += max(0, min([*counts, slots]))
    return room >= len(requests)


def _passes(history: History, group: Json, requests: Sequence[tuple[float, float, float]]) -> bool:
    wanted = [sum(amounts) for amounts in zip(*requests, strict=True)]
    used, fixed = history.used(history.final), history.used(history.final, only_fixed=True)
    for queue in history.chain(group["queue"]):
        name = queue["name"]
        after = [has + need for has, need in zip(used[name], wanted, strict=True)]
        if _exceeds(after, bounds_of(queue, "limit")):
            return False
        after = [has + need for has, need in zip(fixed[name], wanted, strict=True)]
        if not history.is_preemptible(group) and _exceeds(after, bounds_of(queue, "quota")):
            return False
    return True


INVARIANTS: Final[Mapping[str, Callable[[History], Iterator[str]]]] = {
    "at no time does a node exceed its gpu, cpu, memory or pod capacity": nodes_hold,
    "no Running pod of a non-preemptible pod group is ever evicted": fixed_pods_stay,
    "at no time has a queue or ancestor more allocated than its limit": limits_hold,
    "at no time does the non-preemptible allocation of a queue or ancestor exceed its quota": quotas_hold,
    "in the final state every leaf subgroup has either 0 or at least minMember bound pods, and if one leaf "
    "of a pod group has bound pods every leaf has its minimum": gangs_are_whole,
    "after every cycle a pod group that had no bound pod before it has either no bound pod or, in every leaf "
    "subgroup, at least minMember bound pods": gangs_start_whole,
    "in the final state the bound pods of a group with a required level share one domain at that level": (
        domains_hold
    ),
    "nothing changes during when.stableCycles": nothing_changes,
    "in the final state no ready pod group without topologyConstraint is wholly pending although its missing "
    "pods (all of one size) would fit into the idle resources node by node and pass the capacity gate": (
        nobody_waits_in_vain
    ),
}
