"""Pod: creation, the few changes an update may make, status updates, graceful deletion.

The subresources that write pods through other documents (binding) or through narrower rules
(resize, ephemeralcontainers) are in `podsubresource`; eviction has its own module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import MAX_INT32, parse_ip, range_error, validate_ip
from quarterdeck.apiserver.builtin.internalform import internal_diff, internal_form
from quarterdeck.apiserver.builtin.kind import SpecStrategy, immutable, same, section, text_at
from quarterdeck.apiserver.metadata import invalid_json, qualified_name_errors, subdomain_errors
from quarterdeck.apiserver.resource.strategy import Json, WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, internal, invalid, required

from .annotation import MIRROR, validate_pod_annotations
from .container import validate_image_padding
from .defaults import default_pod
from .placement import merge_label_keys, validate_tolerations
from .resources import qos_class
from .spec import validate_pod_spec

UPDATABLE: Final = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def _host_network(pod: Json) -> str:
    return "true" if (pod.get("spec") or {}).get("hostNetwork") else "false"


def _pod_ip(pod: Json) -> str:
    status = pod.get("status") or {}
    addresses = status.get("podIPs")
    if addresses:
        return addresses[0].get("ip") or ""
    return status.get("podIP") or ""


class PodStrategy(SpecStrategy):
    metadata_checks = 4
    deletes_gracefully = True
    status_metadata = frozenset(("labels", "annotations", "finalizers"))
    selectable_fields = {  # noqa: RUF012 # never changed
        "spec.nodeName": text_at("spec", "nodeName"),
        "spec.host": text_at("spec", "nodeName"),  # its name long ago
        "spec.restartPolicy": text_at("spec", "restartPolicy"),
        "spec.schedulerName": text_at("spec", "schedulerName"),
        "spec.serviceAccountName": text_at("spec", "serviceAccountName"),
        "spec.hostNetwork": _host_network,
        "status.phase": text_at("status", "phase"),
        "status.podIP": _pod_ip,
        "status.podIPs": _pod_ip,
        "status.nominatedNodeName": text_at("status", "nominatedNodeName"),
    }

    def default(self, obj: Json) -> None:
        default_pod(obj)
        status = obj.get("status")
        if status:
            default_status(status)
        elif status is None:
            obj["status"] = {}

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        spec = section(obj, "spec")
        status: Json = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            text = "Scheduling is blocked due to non-empty scheduling gates"
            status["conditions"] = [
                condition("PodScheduled", "False", ctx.now, reason="SchedulingGated", message=text)
            ]
        status["qosClass"] = qos_class(spec)
        obj["status"] = status
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            merge_label_keys(spec, obj["metadata"].get("labels") or {})

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = validate_pod(obj)
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            text = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden("spec.nodeName", text))
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = validate_pod(obj)
        errors += _validate_annotation_changes(obj, old)
        errors += _validate_spec_changes(obj.get("spec") or {}, old.get("spec") or {})
        return errors

    def prepare_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        status = section(obj, "status")
        before: Mapping[str, Any] = old.get("status") or {}
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        if not status.get("observedGeneration") and before.get("observedGeneration"):
            status["observedGeneration"] = before["observedGeneration"]
        generations = {
            item.get("type"): item["observedGeneration"]
            for item in before.get("conditions") or ()
            if item.get("observedGeneration")
        }
        if generations:
            for item in status.get("conditions") or ():
                if not item.get("observedGeneration") and item.get("type") in generations:
                    item["observedGeneration"] = generations[item.get("type")]

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        errors = _validate_annotation_changes(obj, old)
        return errors + _validate_status(obj, old)

    def grace_period(self, obj: Json, requested: int | None) -> int:
        return grace_period(obj, requested)

    def generation_changed(self, obj: Json, old: Json) -> bool:
        new, before = obj.get("spec"), old.get("spec")
        return new != before and not same(new, before)

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        from .warning import pod_warnings

        return pod_warnings(obj) if old is None else []


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


def grace_period(pod: Mapping[str, Any], requested: int | None) -> int:
    """Seconds a deleted pod gets: as requested, else its own; none when it never ran or has finished."""
    spec: Mapping[str, Any] = pod.get("spec") or {}
    period = requested
    if period is None:
        period = spec.get("terminationGracePeriodSeconds") or 0
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    return 1 if period < 0 else period


def validate_pod(pod: Json) -> list[FieldError]:
    """What creation and every kind of update check alike, metadata aside."""
    spec: Json = pod.get("spec") or {}
    meta: Mapping[str, Any] = pod.get("metadata") or {}
    errors: list[FieldError] = []
    if annotations := meta.get("annotations"):
        errors += validate_pod_annotations(annotations, spec, "metadata.annotations")
    errors += validate_pod_spec(spec, "spec", meta=meta, is_pod=True)
    if not spec.get("serviceAccountName") and (volumes := spec.get("volumes")):
        text = "must not be specified when serviceAccountName is not set"
        for index, volume in enumerate(volumes):
            sources = (volume.get("projected") or {}).get("sources") or ()
            errors += [
                forbidden(f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken", text)
                for position, source in enumerate(sources)
                if source.get("serviceAccountToken") is not None
            ]
    errors += validate_image_padding(spec.get("containers") or (), "spec.containers")
    if containers := spec.get("initContainers"):
        errors += validate_image_padding(containers, "spec.initContainers")
    return errors


def _validate_annotation_changes(pod: Json, old: Json) -> list[FieldError]:
    new: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    before: Mapping[str, str] = old["metadata"].get("annotations") or {}
    if new == before:
        return []
    errors: list[FieldError] = []
    for key in before:
        if key in new and new[key] == before[key]:
            continue
        if key.startswith(_APP_ARMOR):
            text = "may not remove or update AppArmor annotations"
            errors.append(forbidden(f"metadata.annotations[{key}]", text))
        if key == MIRROR:
            text = "may not remove or update mirror pod annotation"
            errors.append(forbidden(f"metadata.annotations[{key}]", text))
    for key in new:
        if key in before:
            continue
        if key.startswith(_APP_ARMOR):
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add AppArmor annotations"))
        if key == MIRROR:
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add mirror pod annotation"))
    return errors + validate_pod_annotations(new, pod.get("spec") or {}, "metadata.annotations")


def _validate_container_changes(
    new: Sequence[Json], old: Sequence[Json], field: str
) -> tuple[list[FieldError], bool]:
    if len(new) != len(old):
        return [forbidden(field, "pod updates may not add or remove containers")], True
    errors = [
        required(f"{field}[{index}].image")
        for index, container in enumerate(new)
        if not container.get("image")
    ]
    return errors + validate_image_padding(new, field), False


def _validate_spec_changes(spec: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("containers", "initContainers"):
        found, stop = _validate_container_changes(spec.get(key) or (), old.get(key) or (), f"spec.{key}")
        errors += found
        if stop:
            return errors
    deadline, before = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if deadline is not None:
        if not 0 <= deadline <= MAX_INT32:
            return [*errors, invalid(path, deadline, range_error(0, MAX_INT32))]
        if before is not None and before < deadline:
            return [*errors, invalid(path, deadline, "must be less than or equal to previous value")]
    elif before is not None:
        errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
    errors += _validate_toleration_changes(spec.get("tolerations") or (), old.get("tolerations") or ())
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if (name := gate.get("name")) not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    if spec == old or same(spec, old):
        return errors
    changed = dict(spec)
    for key in ("containers", "initContainers"):
        if spec.get(key):
            changed[key] = [
                {**container, "image": was.get("image")}
                for container, was in zip(spec[key], old[key], strict=True)
            ]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        changed[key] = old.get(key)
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and changed.get("terminationGracePeriodSeconds") == 1:
        changed["terminationGracePeriodSeconds"] = grace
    if old.get("schedulingGates"):
        errors += _validate_gated_changes(changed, old)
    if not same(changed, old):
        changes = internal_diff("PodSpec", old, changed)
        text = f"pod updates may not change fields other than {UPDATABLE}\n{changes}"
        errors.append(forbidden("spec", text))
    return errors


def _validate_toleration_changes(
    new: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]]
) -> list[FieldError]:
    if new == old:
        return validate_tolerations(new, "spec.tolerations")
    loose = [{**item, "tolerationSeconds": None} for item in new]
    for item in old:
        if not any(same({**item, "tolerationSeconds": None}, other) for other in loose):
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden("spec.tolerations", text)]
    return validate_tolerations(new, "spec.tolerations")


_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _validate_gated_changes(changed: Json, old: Json) -> list[FieldError]:
    """While gated, node selector and node affinity may be tightened; `changed` loses what is allowed."""
    errors: list[FieldError] = []
    selector, before = changed.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if selector != before:
        if any(selector.get(key) != value for key, value in before.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid_json("spec.nodeSelector", selector or None, text))
        changed["nodeSelector"] = before
    affinity: Json = changed.get("affinity") or {}
    old_affinity: Json = old.get("affinity") or {}
    node, was = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if not same(node, was):
        errors += _validate_node_affinity_change(node or {}, was or {})
        changed["affinity"] = {**affinity, "nodeAffinity": was}
        if not affinity.get("podAffinity") and not affinity.get("podAntiAffinity") and not old_affinity:
            changed["affinity"] = None
    return errors


def _validate_node_affinity_change(node: Json, was: Json) -> list[FieldError]:
    path = f"spec.affinity.nodeAffinity.{_TERMS}.nodeSelectorTerms"
    old_terms = (was.get(_TERMS) or {}).get("nodeSelectorTerms") or []
    terms = (node.get(_TERMS) or {}).get("nodeSelectorTerms") or []
    if not was.get(_TERMS) or not old_terms:
        return []
    if len(terms) != len(old_terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        shown = [internal_form("NodeSelectorTerm", term) for term in terms]
        return [invalid_json(path, shown or None, text)]
    text = "only additions are allowed (no mutations or deletions)"
    return [
        invalid_json(f"{path}[{index}]", internal_form("NodeSelectorTerm", term), text)
        for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=True))
        if not _only_adds(term, old_term)
    ]


def _only_adds(term: Json, old: Json) -> bool:
    keys = ("matchExpressions", "matchFields")
    if not any(old.get(key) for key in keys):
        return not any(term.get(key) for key in keys)
    for key in keys:
        before = old.get(key) or []
        if before and not same((term.get(key) or [])[: len(before)], before):
            return False
    return True


_SYSTEM_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "Initialized"))
_NOT_AGAIN: Final = "may not be transitioned to non-terminated state"


def _validate_status(pod: Json, old: Json) -> list[FieldError]:
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
