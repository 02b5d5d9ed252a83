"""Pod: creation, the few changes an update may make, status updates, graceful deletion.

The subresources that write pods through other documents (binding) or through narrower rules
(resize, ephemeralcontainers) are in `podsubresource`; eviction has its own module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import SpecStrategy, same, section, text_at
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden

from .annotation import validate_pod_annotations
from .container import validate_image_padding
from .defaults import default_pod
from .placement import merge_label_keys
from .podchange import validate_annotation_changes, validate_spec_changes
from .podstatus import condition, default_status, validate_status
from .resources import qos_class
from .spec import validate_pod_spec
from .warning import pod_warnings


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
        errors += validate_annotation_changes(obj, old)
        errors += validate_spec_changes(obj.get("spec") or {}, old.get("spec") or {})
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
        errors = validate_annotation_changes(obj, old)
        return errors + validate_status(obj, old)

    def grace_period(self, obj: Json, requested: int | None) -> int:
        return grace_period(obj, requested)

    def generation_changed(self, obj: Json, old: Json) -> bool:
        new, before = obj.get("spec"), old.get("spec")
        return new != before and not same(new, before)

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        return pod_warnings(obj) if old is None else []


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
