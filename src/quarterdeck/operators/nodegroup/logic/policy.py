"""Policy validation: what the cluster allows a group to be.

``judge(change, state)`` runs the checks in their order. The first violation is the answer; all of them
are kept as causes. Warnings count only if nothing is denied. Cluster state that could not be read fails
the request, but only when a check that comes before the first violation needs it.

All objects are v1 documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from quarterdeck.operators.nodegroup import names

from .clusterstate import ClusterConfiguration, StateError

Document = Mapping[str, Any]
T = TypeVar("T")
Known: TypeAlias = T | StateError
"""A part of the cluster's state, or why it cannot be read."""

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
_LABEL_LENGTH: Final = 63
_HASHES_LENGTH: Final = 21
_ENDPOINTS_OF_A_SAFE_CLUSTER: Final = 3
_TIME: Final = re.compile(names.WINDOW_TIME, re.ASCII)
_EMPTY: Final[Document] = {}


class Change:
    """What somebody wants to do: create a group, or change ``old`` into ``new``."""

    __slots__ = ("is_update", "name", "old_spec", "spec")

    def __init__(self, *, name: str, new: Document, old: Document | None = None) -> None:
        """``old`` is given for updates."""
        self.name: Final = name
        self.spec: Final[Document] = new.get("spec") or _EMPTY
        self.old_spec: Final[Document] = (old or _EMPTY).get("spec") or _EMPTY
        self.is_update: Final = old is not None


class ClusterState(msgspec.Struct, frozen=True):
    """What the checks depend on; parts nobody needs may stay at their defaults."""

    configuration: ClusterConfiguration = ClusterConfiguration()
    global_prefix: Known[str] = ""
    """First part of the names of cloud machines in the global settings; wins over the configuration's."""
    zones: Known[Sequence[str]] = ()
    toleration_keys: Known[Collection[str]] = frozenset()
    endpoints: Known[int] = 0
    """Ready addresses of the API server."""
    custom_nodes: Known[Sequence[str]] = ()
    """Nodes of the group with a containerd configuration of their own, sorted."""
    unsupported_nodes: Known[Sequence[str]] = ()
    """Nodes of the group without cgroup v2, which ContainerdV2 and swap need."""


class Needs(msgspec.Struct, frozen=True):
    """Which parts of the cluster's state a change depends on."""

    global_prefix: bool = False
    zones: bool = False
    toleration_keys: bool = False
    endpoints: bool = False
    custom_nodes: bool = False
    unsupported_nodes: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """Allowed if there are no violations."""

    violations: Sequence[str] = ()
    """In the order of the checks; the first one is the answer."""
    warnings: Sequence[str] = ()

    @property
    def is_allowed(self) -> bool:
        """Whether no check was violated."""
        return not self.violations


def needs_of(change: Change, configuration: ClusterConfiguration) -> Needs:
    """What has to be read before ``judge`` can be asked."""
    spec = change.spec
    is_changed = change.is_update and _is_cri_changed(change, configuration)
    return Needs(
        global_prefix=_has_limited_name(change, configuration),
        zones=bool(_zones(spec)),
        toleration_keys=bool(_taints(spec)),
        endpoints=is_changed and change.name == names.MASTER,
        custom_nodes=is_changed,
        unsupported_nodes=change.is_update
        and (configuration.effective_cri(spec) == names.CONTAINERD_V2 or _wants_swap(spec)),
    )


def judge(change: Change, state: ClusterState) -> Verdict:
    """Run all checks; raises ``StateError`` when the answer depends on state that cannot be read."""
    violations: list[str] = []
    warnings: list[str] = []
    for check in _CHECKS:
        try:
            for finding in check(change, state):
                (warnings if isinstance(finding, Warned) else violations).append(finding)
        except StateError:
            if not violations:
                raise
    return Verdict(violations) if violations else Verdict(warnings=warnings)


class Warned(str):
    """A finding that does not stop the change."""

    __slots__ = ()


Findings = Sequence[str]
Check = Callable[[Change, ClusterState], Findings]
_NONE: Final[Findings] = ()


def _needed(part: Known[T]) -> T:
    if isinstance(part, StateError):
        raise part
    return part


def _zones(spec: Document) -> Sequence[str]:
    return (spec.get("cloudInstances") or _EMPTY).get("zones") or ()


def _taints(spec: Document) -> Sequence[Document]:
    taints = (spec.get("nodeTemplate") or _EMPTY).get("taints") or ()
    return [taint for taint in taints if taint is not None]


def _kubelet(spec: Document) -> Document:
    return spec.get("kubelet") or _EMPTY


def _has_limited_name(change: Change, configuration: ClusterConfiguration) -> bool:
    return not change.is_update and configuration.cluster_type == names.CLOUD


def _is_cri_changed(change: Change, configuration: ClusterConfiguration) -> bool:
    return configuration.effective_cri(change.spec) != configuration.effective_cri(change.old_spec)


def _wants_swap(spec: Document) -> bool:
    return (_kubelet(spec).get("memorySwap") or _EMPTY).get("swapBehavior") == "LimitedSwap"


def _name_length(change: Change, state: ClusterState) -> Findings:
    if not _has_limited_name(change, state.configuration):
        return _NONE
    prefix = _needed(state.global_prefix) or state.configuration.prefix
    longest = _LABEL_LENGTH - len(prefix.encode()) - 1 - _HASHES_LENGTH
    if len(change.name.encode()) > longest:
        return (
            (
                "it is forbidden for this cluster to set (cluster prefix + node group name) longer than "
                f"{names.MAX_NAME_LENGTH} symbols; max nodegroup name length for this cluster is {longest}"
            ),
        )
    return _NONE


def _replica_range(change: Change, _: ClusterState) -> Findings:
    instances = change.spec.get("cloudInstances")
    if instances is not None and (instances.get("maxPerZone") or 0) < (instances.get("minPerZone") or 0):
        return ("it is forbidden to set maxPerZone lower than minPerZone for NodeGroup",)
    return _NONE


def _max_pods(change: Change, state: ClusterState) -> Findings:
    pods = _kubelet(change.spec).get("maxPods")
    if pods is not None and 2 * pods > 2 ** (32 - state.configuration.node_prefix) - 3:
        return (Warned(f".spec.kubelet.maxPods ({pods}) is too high: may lead to IP exhaustion"),)
    return _NONE


def _known_zones(change: Change, state: ClusterState) -> Findings:
    zones = _zones(change.spec)
    known = _needed(state.zones) if zones else ()
    if known:
        for zone in zones:
            if zone not in known:
                return (f'unknown zone "{zone}"',)
    return _NONE


def _no_docker(change: Change, _: ClusterState) -> Findings:
    if (change.spec.get("cri") or _EMPTY).get("type") == names.DOCKER:
        return ("it is forbidden to set cri type to Docker",)
    return _NONE


def _cri_section(change: Change, _: ClusterState) -> Findings:
    cri = change.spec.get("cri") or _EMPTY
    kind = cri.get("type")
    if not kind:
        return _NONE
    for section, owner in (
        ("containerd", names.CONTAINERD),
        ("containerdV2", names.CONTAINERD_V2),
        ("docker", names.DOCKER),
    ):
        if cri.get(section) is not None and kind != owner:
            return (f'it is forbidden to set .spec.cri.{section} without .spec.cri.type="{owner}"',)
    return _NONE


def _master_cri(change: Change, state: ClusterState) -> Findings:
    if not change.is_update or change.name != names.MASTER:
        return _NONE
    if not _is_cri_changed(change, state.configuration):
        return _NONE
    if _needed(state.endpoints) < _ENDPOINTS_OF_A_SAFE_CLUSTER:
        return (
            Warned(
                "it is disruptive to change cri.type in master node group for cluster with "
                f"apiserver endpoints < {_ENDPOINTS_OF_A_SAFE_CLUSTER}"
            ),
        )
    return _NONE


def _tolerated_taints(change: Change, state: ClusterState) -> Findings:
    taints = _taints(change.spec)
    if not taints:
        return _NONE
    tolerated = _needed(state.toleration_keys)
    keys = [taint.get("key") or "" for taint in taints]
    missing = [key for key in keys if key not in names.STANDARD_TAINT_KEYS and key not in tolerated]
    if missing:
        return (
            (
                "it is forbidden to create a NodeGroup resource with taints not specified in ModuleConfig "
                '"global" in the array .spec.settings.modules.placement.customTolerationKeys, add: '
                f"{', '.join(missing)} to customTolerationKeys"
            ),
        )
    return _NONE


def _rolling_update(change: Change, _: ClusterState) -> Findings:
    mode = (change.spec.get("disruptions") or _EMPTY).get("approvalMode")
    if mode == names.ROLLING_UPDATE and change.spec.get("nodeType") != names.CLOUD_EPHEMERAL:
        return (
            (
                'it is forbidden to set .spec.disruptions.approvalMode to "RollingUpdate" when spec.nodeType '
                'is not "CloudEphemeral"'
            ),
        )
    return _NONE


def _node_type(change: Change, _: ClusterState) -> Findings:
    if change.is_update and (change.spec.get("nodeType") or "") != (change.old_spec.get("nodeType") or ""):
        return (".spec.nodeType field is immutable",)
    return _NONE


def _static_selector(change: Change, _: ClusterState) -> Findings:
    if not change.is_update or change.spec.get("nodeType") not in (names.STATIC, names.CLOUD_STATIC):
        return _NONE
    old, new = _selector(change.old_spec), _selector(change.spec)
    if not old or old == new:
        return _NONE
    what = "modified" if new else "modified or removed"
    return (
        (
            f".spec.staticInstances.labelSelector can be added but cannot be {what} once set. "
            "To change it, create a new NodeGroup"
        ),
    )


def _selector(spec: Document) -> Document:
    """The label selector without its empty parts."""
    selector = (spec.get("staticInstances") or _EMPTY).get("labelSelector") or _EMPTY
    return {key: selector[key] for key in ("matchLabels", "matchExpressions") if selector.get(key)}


def _duplicate_taints(change: Change, _: ClusterState) -> Findings:
    taints = [(taint.get("key") or "", taint.get("effect") or "") for taint in _taints(change.spec)]
    if len(set(taints)) < len(taints):
        return (".spec.nodeTemplate.taints must contain only one taint with the same key and effect",)
    return _NONE


def _topology_manager(change: Change, _: ClusterState) -> Findings:
    kubelet = _kubelet(change.spec)
    manager = kubelet.get("topologyManager") or _EMPTY
    is_on = manager.get("enabled")
    if is_on is None:
        is_on = manager.get("policy") not in (None, "", "None")
    if not is_on:
        return _NONE
    reservation = kubelet.get("resourceReservation")
    if reservation is None or reservation.get("mode") == "Off":
        return (
            ".spec.kubelet.resourceReservation must be enabled for .spec.kubelet.topologyManager to work",
        )
    if reservation.get("mode") == "Static" and (reservation.get("static") or _EMPTY).get("cpu") is None:
        return (
            (
                'for .spec.kubelet.topologyManager and .spec.kubelet.resourceReservation.mode == "Static", '
                ".spec.kubelet.resourceReservation.static.cpu must be specified"
            ),
        )
    return _NONE


def _custom_containerd(change: Change, state: ClusterState) -> Findings:
    if not change.is_update or not _is_cri_changed(change, state.configuration):
        return _NONE
    nodes = _needed(state.custom_nodes)
    if nodes:
        return (
            f"CRI cannot be changed because some nodes are using custom configuration: {' '.join(nodes)}",
        )
    return _NONE


def _containerd_v2(change: Change, state: ClusterState) -> Findings:
    if not change.is_update or state.configuration.effective_cri(change.spec) != names.CONTAINERD_V2:
        return _NONE
    if _needed_nodes(state, "containerd v2"):
        return (
            (
                f'It is forbidden for NodeGroup "{change.name}" to use CRI ContainerdV2 because it contains '
                "nodes that do not support ContainerdV2. You can list them with: kubectl get node -l "
                f"{names.CONTAINERD_V2_UNSUPPORTED_LABEL},{names.GROUP_LABEL}={change.name}"
            ),
        )
    return _NONE


def _memory_swap(change: Change, state: ClusterState) -> Findings:
    if not change.is_update or not _wants_swap(change.spec):
        return _NONE
    if _needed_nodes(state, "cgroup v2"):
        return (
            (
                f'memorySwap requires cgroup v2, but NodeGroup "{change.name}" contains nodes where '
                "cgroup v2 is not supported"
            ),
        )
    return _NONE


def _needed_nodes(state: ClusterState, feature: str) -> Sequence[str]:
    nodes = state.unsupported_nodes
    if isinstance(nodes, StateError):
        raise StateError(f"failed to get nodes without {feature} support: {nodes}")
    return nodes


def _windows(change: Change, _: ClusterState) -> Findings:
    disruptions = change.spec.get("disruptions")
    if not disruptions:
        return _NONE
    found: list[str] = []
    for mode in ("automatic", "rollingUpdate"):
        for index, window in enumerate((disruptions.get(mode) or _EMPTY).get("windows") or ()):
            path = f".spec.disruptions.{mode}.windows[{index}]"
            for end in ("from", "to"):
                value = (window or _EMPTY).get(end) or ""
                if not is_window_time(value):
                    found.append(f'{path}.{end}: invalid time format "{value}", expected HH:MM')
            for day in (window or _EMPTY).get("days") or ():
                if day not in names.DAYS:
                    found.append(f'{path}.days: invalid day "{day}", expected one of {",".join(names.DAYS)}')
    return found


def is_window_time(text: str) -> bool:
    """Whether a text is a time of day as windows spell it."""
    return _TIME.fullmatch(text) is not None


_CHECKS: Final[Sequence[Check]] = (
    _name_length,
    _replica_range,
    _max_pods,
    _known_zones,
    _no_docker,
    _cri_section,
    _master_cri,
    _tolerated_taints,
    _rolling_update,
    _node_type,
    _static_selector,
    _duplicate_taints,
    _topology_manager,
    _custom_containerd,
    _containerd_v2,
    _memory_swap,
    _windows,
)
