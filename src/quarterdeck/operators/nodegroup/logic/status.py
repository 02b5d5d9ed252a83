"""The status of a group, computed from what is known about its nodes and machines.

``compute(facts)`` gives the whole new status document and, if there is something to tell, an event. Parts of
the present status that it does not own (``standby``, fields of newer versions) are kept, so the caller can
compare the documents and write only when they differ. Time comes in with the facts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.operators.nodegroup import names

Document = dict[str, Any]

GRACE_PERIOD: Final = 300.0
"""Seconds for which a new node counts as ready."""
MAX_EVENT: Final = 1024
"""Characters of an event's message."""
_OWN_CONDITIONS: Final = ("Ready", "Updating", "WaitingForDisruptiveApproval", "Error", "Scaling")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class NodeFacts(msgspec.Struct, frozen=True):
    """What matters about one node."""

    name: str
    is_ready: bool = False
    is_unschedulable: bool = False
    age: float = GRACE_PERIOD
    """Seconds since it was created."""
    annotations: Mapping[str, str] = {}
    taints: Sequence[str] = ()
    """Keys of its taints."""


class MachineFailure(msgspec.Struct, frozen=True):
    """A machine that could not be ordered."""

    name: str = ""
    provider_id: str = ""
    owner: str = ""
    description: str = ""
    time: str = ""
    """RFC 3339."""
    state: str = ""
    type: str = ""

    def to_document(self) -> Document:
        """The entry in ``status.lastMachineFailures``."""
        operation = {
            "description": self.description,
            "lastUpdateTime": self.time,
            "state": self.state or "Failed",
            "type": self.type or "Create",
        }
        return {
            "name": self.name,
            "providerID": self.provider_id,
            "ownerRef": self.owner,
            "lastOperation": operation,
        }


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a status depends on."""

    group: Mapping[str, Any]
    """The v1 document, with its present status."""
    now: str
    """RFC 3339, in UTC."""
    nodes: Sequence[NodeFacts] = ()
    checksum: str = ""
    """Checksum of the group's newest configuration; empty if unknown."""
    provider_zones: Sequence[str] = ()
    replicas: int = 0
    """Sum over the MachineDeployments of the group."""
    machines: int = 0
    failures: Sequence[MachineFailure] = ()
    is_frozen: bool = False
    """Whether a MachineDeployment is frozen."""
    engine: str = ""
    """MCM or CAPI; empty if unknown."""
    class_kind: str = ""
    """The kind of instance class the cluster uses; empty if unknown: then references are not checked."""
    has_class: bool = True
    """Whether the instance class of the group exists."""
    capacity_error: str = ""
    """Why a group without nodes cannot be scaled up."""
    kubernetes_version: str = ""


class Notice(msgspec.Struct, frozen=True):
    """An event on the group."""

    reason: str
    message: str
    is_warning: bool


class Outcome(msgspec.Struct, frozen=True):
    """The new status, and what to tell."""

    status: Document
    notice: Notice | None = None


def compute(facts: Facts) -> Outcome:
    """The status of a group and perhaps an event."""
    old: Mapping[str, Any] = facts.group.get("status") or {}
    spec: Mapping[str, Any] = facts.group.get("spec") or {}
    is_ephemeral = spec.get("nodeType") == names.CLOUD_EPHEMERAL
    instances: Mapping[str, Any] = (spec.get("cloudInstances") or {}) if is_ephemeral else {}
    zones = len(instances.get("zones") or facts.provider_zones) if is_ephemeral else 0
    low, high = ((instances.get(key) or 0) * zones for key in ("minPerZone", "maxPerZone"))
    failures = _failures(facts) if is_ephemeral else []
    error = reference_error(facts) if is_ephemeral else ""
    errors = [text for text in (error, failures[-1].description if failures else "") if text]
    text = "|".join(errors)
    status: Document = {
        **old,
        "ready": sum(node.is_ready for node in facts.nodes),
        "nodes": len(facts.nodes),
        "upToDate": sum(_is_up_to_date(node, facts.checksum) for node in facts.nodes),
        "instances": facts.machines if is_ephemeral else 0,
        "desired": max(facts.replicas, low) if is_ephemeral else 0,
        "min": low,
        "max": high,
        "error": error,
        "conditionSummary": {
            "statusMessage": names.MACHINE_CREATION_FAILED if text else "",
            "ready": "False" if text else "True",
        },
    }
    status.pop("lastMachineFailures", None)
    if is_ephemeral:
        status["lastMachineFailures"] = [failure.to_document() for failure in failures]
    if facts.engine and old.get("engine") not in (names.MCM, names.CAPI):
        status["engine"] = facts.engine
    if facts.kubernetes_version:
        status["kubernetesVersion"] = facts.kubernetes_version
    status["conditions"] = _conditions(facts, status, errors, is_ephemeral=is_ephemeral)
    status["deckhouse"] = _deckhouse(facts, status)
    return Outcome(status, _notice(text, old))


def reference_error(facts: Facts) -> str:
    """What is wrong with the class and the zones a group refers to; empty if nothing."""
    instances = (facts.group.get("spec") or {}).get("cloudInstances") or {}
    reference = instances.get("classReference") or {}
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    if facts.class_kind and kind != facts.class_kind:
        return (
            f"Invalid classReference.kind '{kind}'. Expected '{facts.class_kind}'. "
            "Please update the NodeGroup to use the correct instance class kind."
        )
    if facts.class_kind and not facts.has_class:
        return (
            f"Instance class '{name}' of type '{kind}' not found. Please create the required instance class "
            "or update the NodeGroup to reference an existing one."
        )
    if facts.capacity_error:
        return facts.capacity_error
    known = sorted(facts.provider_zones)
    unknown = [zone for zone in instances.get("zones") or () if zone not in known]
    if known and unknown:
        return (
            f"Invalid zones specified: [{' '.join(unknown)}]. Available zones: [{' '.join(known)}]. "
            "Please update the NodeGroup to use valid zones."
        )
    return ""


def _is_up_to_date(node: NodeFacts, checksum: str) -> bool:
    return bool(checksum) and node.annotations.get(names.CONFIGURATION_CHECKSUM) == checksum


def _failures(facts: Facts) -> list[MachineFailure]:
    """Failures that say something, oldest first."""
    return sorted((one for one in facts.failures if one.description), key=lambda one: one.time)


def _conditions(
    facts: Facts, status: Mapping[str, Any], errors: Sequence[str], *, is_ephemeral: bool
) -> list[Document]:
    old = {item["type"]: item for item in (facts.group.get("status") or {}).get("conditions") or ()}
    error = _error_message(facts, errors, old.get("Error") or {})
    found = [
        ("Ready", _is_ready(facts, status), ""),
        ("Updating", any(_has_update(node) for node in facts.nodes), ""),
        ("WaitingForDisruptiveApproval", any(_is_waiting(node) for node in facts.nodes), ""),
        ("Error", bool(error), error),
    ]
    if is_ephemeral:
        found.append(("Scaling", _is_scaling(facts, status), ""))
    mine = [
        _condition(old.get(kind) or {}, kind, holds, message, facts.now) for kind, holds, message in found
    ]
    return [*mine, *(item for kind, item in old.items() if kind not in _OWN_CONDITIONS)]


def with_name_taken(status: Mapping[str, Any], problem: str, now: str) -> Document:
    """A status that says why Nodes of the group cannot be made, or no longer."""
    present = status.get("conditions") or []
    old: Document = next((item for item in present if item["type"] == names.NODE_NAME_TAKEN), {})
    if not problem and not old:
        return {**status}
    changed = _condition(old, names.NODE_NAME_TAKEN, bool(problem), problem, now)
    others = [item for item in present if item is not old]
    return {**status, "conditions": [*others, changed]}


def _condition(old: Mapping[str, Any], kind: str, holds: bool, message: str, now: str) -> Document:
    condition: Document = {"type": kind, "status": "True" if holds else "False"}
    if message:
        condition["message"] = message
    is_same = old.get("status") == condition["status"] and (old.get("message") or "") == message
    condition["lastTransitionTime"] = (old.get("lastTransitionTime") if is_same else None) or now
    return condition


def _is_ready(facts: Facts, status: Mapping[str, Any]) -> bool:
    count = sum(
        not node.is_unschedulable and (node.is_ready or node.age < GRACE_PERIOD) for node in facts.nodes
    )
    if (facts.group.get("spec") or {}).get("nodeType") == names.STATIC:
        return bool(count == (status["desired"] or len(facts.nodes)))
    return bool(count >= status["min"])


def _has_update(node: NodeFacts) -> bool:
    return any(key.startswith(names.UPDATE_PREFIX) for key in node.annotations)


def _is_waiting(node: NodeFacts) -> bool:
    return names.DISRUPTION_REQUIRED in node.annotations and names.DISRUPTION_APPROVED not in node.annotations


def _is_scaling(facts: Facts, status: Mapping[str, Any]) -> bool:
    desired = status["desired"]
    if desired > len(facts.nodes) or desired < status["instances"]:
        return True
    return any(names.TO_BE_DELETED_TAINT in node.taints for node in facts.nodes)


def _error_message(facts: Facts, errors: Sequence[str], old: Mapping[str, Any]) -> str:
    before: str = old.get("message") or "" if old.get("status") == "True" else ""
    if not errors:
        return before if facts.is_frozen else ""
    text = "|".join(errors)
    if text == names.MACHINE_CREATION_STARTED and before:
        return before  # a new attempt does not undo the failure before it
    return text


def _notice(text: str, old: Mapping[str, Any]) -> Notice | None:
    """An event when the error text changes.

    What it was before is read from the parts it was made of: the condition may hold an older text.
    """
    message = text[:MAX_EVENT]
    failures: Sequence[Mapping[str, Any]] = old.get("lastMachineFailures") or ({},)
    latest = (failures[-1].get("lastOperation") or {}).get("description")
    before = "|".join(part for part in (old.get("error"), latest) if part)
    if not message or before[:MAX_EVENT] == message:
        return None
    if message == names.MACHINE_CREATION_STARTED:
        return Notice(names.MACHINE_CREATING, message, is_warning=False)
    return Notice(names.MACHINE_FAILED, message, is_warning=True)


def _deckhouse(facts: Facts, status: Mapping[str, Any]) -> Document:
    """Which configuration has been processed; the time moves only when the configuration does."""
    metadata = facts.group.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    content = {
        "name": metadata.get("name", ""),
        "spec": facts.group.get("spec") or {},
        "engine": status.get("engine", ""),
        "useMCM": names.USE_MCM in annotations,
        "manualRolloutID": annotations.get(names.MANUAL_ROLLOUT_ID, ""),
    }
    checksum = hashlib.md5(_encode(content), usedforsecurity=False).hexdigest()
    old: Document = status.get("deckhouse") or {}
    processed = old.get("processed") or {}
    if old.get("synced") == "True" and processed.get("checkSum") == checksum:
        return old
    checkpoint = {"lastTimestamp": facts.now, "checkSum": checksum}
    return {"synced": "True", "observed": checkpoint, "processed": dict(checkpoint)}
