"""Why a kubelet does not take a pod that was sent to its node; here: host ports that are taken. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from quarterdeck.api import Time
from quarterdeck.api.k8s import Pod, PodStatus
from quarterdeck.cluster.node.podstatus import is_sidecar
from quarterdeck.scheduler.snapshot import HostPort

REJECTED: Final = "Pod was rejected: "
_REASON: Final = "NodePorts"
_TEXT: Final = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
_ANY: Final = ("", HostPort.ANY, "::")
_ENDED: Final = ("Succeeded", "Failed")


class Rejection(NamedTuple):
    """Why a pod is not started."""

    reason: str
    message: str

    def status(self, pod: Pod, now: Time) -> PodStatus:
        """The status of the pod, which ends before it begins."""
        message = f"{REJECTED}{self.message}"
        return pod.status.evolve(phase="Failed", reason=self.reason, message=message, start_time=now)


class _Port(NamedTuple):
    number: int
    protocol: str
    address: str

    def clashes(self, other: _Port) -> bool:
        is_same = (self.number, self.protocol) == (other.number, other.protocol)
        return is_same and (self.address == other.address or self.address in _ANY or other.address in _ANY)


def port_rejection(pod: Pod, others: Callable[[], Iterable[Pod]]) -> Rejection | None:
    """What is said of a pod whose ports others of its node have. Few pods have ports."""
    wanted = _ports(pod)
    if not wanted:
        return None
    for other in others():
        if other.key == pod.key or other.status.phase in _ENDED or not other.status.start_time:
            continue
        if any(mine.clashes(theirs) for theirs in _ports(other) for mine in wanted):
            return Rejection(_REASON, _TEXT)
    return None


def _ports(pod: Pod) -> list[_Port]:
    containers = (*pod.spec.containers, *(each for each in pod.spec.init_containers if is_sidecar(each)))
    return [
        _Port(port.host_port, port.protocol or "TCP", port.host_ip)
        for container in containers
        for port in container.ports
        if isinstance(port.host_port, int) and port.host_port
    ]
