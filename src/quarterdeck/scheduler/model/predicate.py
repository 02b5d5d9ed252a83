"""Whether a node may take a pod, apart from resources.

What depends on the node and the pod's constraints alone is judged once per shape of pods. Host ports and
the pods that are there change while the cycle runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import UNSET
from quarterdeck.api.k8s import Taint, Toleration
from quarterdeck.api.nodeselector import selects_node
from quarterdeck.api.toleration import tolerates
from quarterdeck.scheduler.model.affinity import PodAffinities
from quarterdeck.scheduler.model.claim import Claims
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.task import Shape, Task
from quarterdeck.scheduler.snapshot import HostPort, NodeInfo, PodConstraints

_UNSCHEDULABLE: Final = "node is unschedulable"
_NOT_READY: Final = "node has NotReady condition"
_NODE_AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
_VOLUME_AFFINITY: Final = "node(s) had volume node affinity conflict"
_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
_CLAIMS: Final = "cannot allocate all claims"
_NO_MIG: Final = "MIG job cannot be scheduled on non-MIG node"
_WHOLE_ONLY: Final = "only whole gpu jobs can run on a node with MigStrategy='single'"
_MIG_ONLY: Final = "non MIG jobs cant run on a node with MigStrategy='mixed'"
_CLAIMED_ONLY: Final = "device-plugin GPU requests cannot be scheduled on DRA-only nodes"
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


class Predicates:
    """Judges nodes for pods."""

    __slots__ = ("_affinities", "_claims")

    def __init__(self, affinities: PodAffinities, claims: Claims | None = None) -> None:
        self._affinities: Final = affinities
        self._claims: Final = claims

    def depends_on_pods(self, task: Task) -> bool:
        """Whether it matters for the pod which others are there."""
        shape = task.shape
        return self._affinities.is_needed or bool(shape.constraints.host_ports or shape.claims)

    def objections(self, task: Task, node: NodeState) -> tuple[str, ...]:
        """What speaks against the node whatever runs there."""
        return self.objections_to(task.shape, node)

    @staticmethod
    def objections_to(shape: Shape, node: NodeState) -> tuple[str, ...]:
        """The same for all pods of a shape."""
        found = shape.verdicts.get(node.rank)
        if found is None:
            found = _judge(shape.constraints, node.info) or _judge_gpus(shape, node.info)
            shape.verdicts[node.rank] = found
        return found

    def conflict(self, task: Task, node: NodeState, *, is_now: bool) -> str:
        """What speaks against running beside the pods that are there now, or that will be."""
        ports = task.shape.constraints.host_ports
        if ports and not _are_free(ports, node, is_now):
            return _PORTS
        claims = self._claims if task.shape.claims else None
        if claims is not None and not claims.is_possible(task, node, is_now=is_now):
            return _CLAIMS
        if self._affinities.is_needed:
            return self._affinities.problem(task.info, node, is_now)
        return ""


def _judge(constraints: PodConstraints, node: NodeInfo) -> tuple[str, ...]:
    conditions = [_UNSCHEDULABLE] if node.is_unschedulable else []
    if not node.is_ready:
        conditions.append(_NOT_READY)
    conditions += [f"node has {kind} condition" for kind in node.pressures]
    if conditions:
        return tuple(conditions)
    taint = _untolerated(node.taints, constraints.tolerations)
    if taint is not None:
        return (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
    if not _is_selected(constraints, node):
        return (_NODE_AFFINITY,)
    if not all(selects_node(selector, node.name, node.labels) for selector in constraints.volume_nodes):
        return (_VOLUME_AFFINITY,)
    if not all(selects_node(selector, node.name, node.labels) for selector in constraints.claim_nodes):
        return (_NO_VOLUME,)
    return ()


def _judge_gpus(shape: Shape, node: NodeInfo) -> tuple[str, ...]:
    """Whether the node has GPUs of the kind that a pod wants."""
    if not shape.needs_gpu:
        return ()
    is_whole = shape.gpu > 0 and not shape.instances
    if (shape.gpu or shape.share is not None) and node.claimable_gpus:
        return (_CLAIMED_ONLY,)
    if not node.mig_strategy:
        return (_NO_MIG,) if shape.instances else ()
    if node.mig_strategy == "single" and not is_whole:
        return (_WHOLE_ONLY,)
    if node.mig_strategy == "mixed" and not shape.instances:
        return (_MIG_ONLY,)
    return ()


def _untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    for taint in taints:
        if taint.effect in _REPELLING and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None


def _is_selected(constraints: PodConstraints, node: NodeInfo) -> bool:
    if any(node.labels.get(key) != value for key, value in constraints.node_selector):
        return False
    affinity = constraints.affinity
    if affinity is None or affinity.node_affinity is UNSET:
        return True
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return required is UNSET or selects_node(required, node.name, node.labels)


def _are_free(ports: tuple[HostPort, ...], node: NodeState, is_now: bool) -> bool:
    accounts = (node.ports, node.promised_ports) if is_now else (node.promised_ports,)
    return not any(
        count > 0 and _clash(port, taken)
        for account in accounts
        for taken, count in account.items()
        for port in ports
    )


def _clash(left: HostPort, right: HostPort) -> bool:
    if left.port != right.port or left.protocol != right.protocol:
        return False
    return left.ip == right.ip or HostPort.ANY in (left.ip, right.ip)
