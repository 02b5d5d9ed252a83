"""The status of a pod: its conditions, and what a write to it may say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import parse_ip, validate_ip
from quarterdeck.apiserver.builtin.kind import immutable, same
from quarterdeck.apiserver.metadata import invalid_json, qualified_name_errors, subdomain_errors
from quarterdeck.wire.fielderror import FieldError, forbidden, internal, invalid

_SYSTEM_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))
_NOT_AGAIN: Final = "may not be transitioned to non-terminated state"


def default_status(status: Json) -> None:
    """The times of conditions are shown even when empty; podIP and podIPs follow each other."""
    for item in status.get("conditions") or ():
        item.setdefault("lastProbeTime", None)
        item.setdefault("lastTransitionTime", None)
    address, addresses = status.get("podIP"), status.get("podIPs") or ()
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif not address and addresses and (first := addresses[0].get("ip")):
        status["podIP"] = first


def condition(kind: str, status: str, now: str, *, reason: str = "", message: str = "") -> Json:
    """A pod condition as the server itself writes it."""
    made: Json = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def set_condition(status: Json, wanted: Json) -> bool:
    """Adds or replaces a condition; an unchanged status keeps its transition time. True when changed."""
    conditions = status.get("conditions")
    if conditions is None:
        conditions = status["conditions"] = []
    for index, present in enumerate(conditions):
        if present.get("type") == wanted["type"]:
            if present.get("status") == wanted["status"]:
                wanted["lastTransitionTime"] = present.get("lastTransitionTime")
            conditions[index] = wanted
            return not same(present, wanted)
    conditions.append(wanted)
    return True


def validate_status(pod: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    status: Mapping[str, Any] = pod.get("status") or {}
    before: Mapping[str, Any] = old.get("status") or {}
    for index, item in enumerate(status.get("conditions") or ()):
        if (item.get("observedGeneration") or 0) < 0:
            path = f"status.conditions[{index}].observedGeneration"
            errors.append(invalid(path, item["observedGeneration"], "must be a non-negative integer"))
        kind = item.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            path = f"status.conditions[{index}].Type"
            errors += [invalid(path, kind, text) for text in qualified_name_errors(kind)]
    nominated = status.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        path = "status.nominatedNodeName"
        errors += [invalid(path, nominated, text) for text in subdomain_errors(nominated)]
        if (old.get("spec") or {}).get("nodeName"):
            errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    if (status.get("observedGeneration") or 0) < 0:
        text = "must be a non-negative integer"
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], text))
    errors += immutable(status.get("qosClass") or "", before.get("qosClass") or "", "status.qosClass")
    spec: Mapping[str, Any] = old.get("spec") or {}
    for key, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        if before.get(key):
            listed = spec.get(containers) or ()
            errors += _validate_transitions(status.get(key) or (), before[key], listed, spec, f"status.{key}")
    if hosts := status.get("hostIPs"):
        first = hosts[0].get("ip") or ""
        if first != (status.get("hostIP") or ""):
            errors.append(invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
    for key in ("podIPs", "hostIPs"):
        if addresses := status.get(key):
            errors += _validate_addresses(addresses, f"status.{key}")
    return errors


def _validate_transitions(
    new: Sequence[Json], old: Sequence[Json], containers: Sequence[Json], spec: Mapping[str, Any], field: str
) -> list[FieldError]:
    """A container that ended for good may not run again."""
    if _all_could_restart(spec):
        return []
    errors: list[FieldError] = []
    states = {item.get("name"): item.get("state") or {} for item in new}
    for index, item in enumerate(old):
        ended = (item.get("state") or {}).get("terminated")
        name = item.get("name")
        if ended is None or name not in states or states[name].get("terminated") is not None:
            continue
        container = next((listed for listed in containers if listed.get("name") == name), None)
        if container is None or not _should_restart(container, spec, ended.get("exitCode") or 0):
            errors.append(forbidden(f"{field}[{index}].state", _NOT_AGAIN))
    return errors


def _matching_action(container: Mapping[str, Any], code: int) -> str:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = code in (codes.get("values") or ())
        if listed if codes.get("operator") == "In" else not listed:
            return rule.get("action") or ""
    return ""


def _should_restart(container: Mapping[str, Any], spec: Mapping[str, Any], code: int) -> bool:
    if _matching_action(container, code):
        return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _all_could_restart(spec: Mapping[str, Any]) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for key in ("containers", "initContainers")
        for container in spec.get(key) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _validate_addresses(addresses: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    texts = [item.get("ip") or "" for item in addresses]
    for index, text in enumerate(texts):
        errors += validate_ip(text, f"{field}[{index}]")
    if len(texts) > 1:
        families = {address.version for text in texts if (address := parse_ip(text))}
        broken = next((index for index, text in enumerate(texts) if not parse_ip(text)), None)
        if broken is not None:
            why = f"failed to check for dual stack with error:invalid IP[{broken}]: {texts[broken]}"
            errors.append(internal(field, why))
        if len(texts) > 2 or len(families) != 2:
            shown = [{"IP": text} for text in texts]
            errors.append(invalid_json(field, shown, "may specify no more than one IP for each IP family"))
    return errors
