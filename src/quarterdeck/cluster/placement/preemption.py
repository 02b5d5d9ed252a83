"""Preemption: which pods would have to go for a more important one to have a node. Pure.

On each node that would do otherwise, all less important pods are taken away, then given back one by one, the
most important first, as long as the new pod still fits. The node that loses least is chosen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from quarterdeck.api import Selector
from quarterdeck.cluster.placement.state import Demand, PlacementState, summary
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.snapshot import PodInfo

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_ENOUGH: Final = 100
"""Nodes that would do; more are not looked for."""


class Occupant(NamedTuple):
    """A pod that holds a node."""

    info: PodInfo
    priority: int


class Budget(msgspec.Struct):
    """A PodDisruptionBudget."""

    namespace: str
    selector: Selector
    allowed: int


class Plan(NamedTuple):
    """The node for a pod, and who has to go first."""

    node: str
    victims: tuple[PodInfo, ...]


class _Candidate(NamedTuple):
    node: NodeState
    victims: list[Occupant]
    broken: int
    """Budgets that are broken."""

    def cost(self) -> tuple[float, ...]:
        """What is lost, the most important first: less is better."""
        priorities = [each.priority for each in self.victims]
        highest = max(priorities)
        youngest = min(each.info.created for each in self.victims if each.priority == highest)
        # upstream adds an offset, so that every victim counts, whatever its priority
        weight = sum(priority + (1 << 31) for priority in priorities)
        return (self.broken, highest, weight, len(priorities), -youngest, self.node.rank)


class Preemption:
    """Plans of one round."""

    def __init__(
        self, state: PlacementState, occupants: Iterable[Occupant], budgets: Sequence[Budget]
    ) -> None:
        self._state: Final = state
        self._budgets: Final = budgets
        self._by_node: Final[dict[str, list[Occupant]]] = defaultdict(list)
        self._lowest = 1 << 40
        self._in_vain: dict[object, str] = {}
        """Why nobody goes for pods of a kind: room only gets less during a round."""
        for each in occupants:
            self._by_node[each.info.node].append(each)
            if not each.info.is_deleted:
                self._lowest = min(self._lowest, each.priority)

    def is_under_way(self, node: str, priority: int) -> bool:
        """Whether somebody less important is leaving a node."""
        return any(each.info.is_deleted and each.priority < priority for each in self._by_node.get(node, ()))

    def plan(self, demand: Demand) -> Plan | str:
        """Who has to go, or why that would not help."""
        info = demand.info
        own = info.uid if self._state.has_counted_things(info) else ""
        kind = (info.request, info.constraints, demand.spread, demand.priority, demand.problem, own)
        known = self._in_vain.get(kind)
        if known is not None:
            return known
        found = self._search(demand)
        if isinstance(found, str):
            self._in_vain[kind] = found
        return found

    def _search(self, demand: Demand) -> Plan | str:
        reasons: Counter[str] = Counter()
        found: list[_Candidate] = []
        for node in self._state.nodes:
            if self._state.is_hopeless(demand, node):
                reasons[_NOT_HELPFUL] += 1
                continue
            lesser = []
            if self._lowest < demand.priority:
                lesser = [
                    each
                    for each in self._by_node.get(node.name, ())
                    if each.priority < demand.priority and not each.info.is_deleted
                ]
            if not lesser:
                reasons[_NO_VICTIMS] += 1
                continue
            outcome = self._without(demand, node, lesser)
            if isinstance(outcome, _Candidate):
                found.append(outcome)
                if len(found) >= _ENOUGH:
                    break
            else:
                reasons.update(outcome)
        if not found:
            return summary(len(self._state.nodes), reasons)
        best = min(found, key=_Candidate.cost)
        gone = {each.info.uid for each in best.victims}
        self._by_node[best.node.name] = [
            each._replace(info=msgspec.structs.replace(each.info, is_deleted=True))
            if each.info.uid in gone
            else each
            for each in self._by_node[best.node.name]
        ]
        return Plan(best.node.name, tuple(each.info for each in best.victims))

    def _without(self, demand: Demand, node: NodeState, lesser: list[Occupant]) -> _Candidate | Sequence[str]:
        """What a node loses, or why not even that helps. The state is left as it was."""
        state = self._state
        for each in lesser:
            state.take_away(each.info, node)
        still = state.objections(demand, node)
        if still:
            for each in lesser:
                state.give_back(each.info, node)
            return still
        breaking, others = self._by_budget(lesser)
        victims: list[Occupant] = []
        broken = 0
        for group, breaks in ((breaking, True), (others, False)):
            for each in sorted(group, key=lambda one: (-one.priority, one.info.created)):
                state.give_back(each.info, node)
                if state.objections(demand, node):
                    state.take_away(each.info, node)
                    victims.append(each)
                    broken += breaks
        for each in victims:
            state.give_back(each.info, node)
        return _Candidate(node, victims, broken)

    def _by_budget(self, pods: list[Occupant]) -> tuple[list[Occupant], list[Occupant]]:
        """Those whose end would break a budget, and the others."""
        left = [budget.allowed for budget in self._budgets]
        breaking: list[Occupant] = []
        others: list[Occupant] = []
        for each in sorted(pods, key=lambda one: (-one.priority, one.info.created)):
            is_breaking = False
            for place, budget in enumerate(self._budgets):
                if budget.namespace == each.info.namespace and budget.selector.matches(each.info.labels):
                    left[place] -= 1
                    is_breaking = is_breaking or left[place] < 0
            (breaking if is_breaking else others).append(each)
        return breaking, others
