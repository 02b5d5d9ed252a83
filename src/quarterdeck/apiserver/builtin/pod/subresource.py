"""Writes to pods through their subresources: binding, resize, ephemeral containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import NO_METADATA, same, section
from quarterdeck.apiserver.document.internalform import internal_diff
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.apiserver.status import bad_request, conflict, plain_error
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .annotation import MIRROR
from .pod import PodStrategy, validate_pod
from .podstatus import condition, set_condition
from .resources import qos_class


def validate_binding(name: str, binding: Mapping[str, Any]) -> None:
    """Raises what POST pods/<name>/binding answers to a malformed Binding."""
    if ((binding.get("metadata") or {}).get("name") or "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    target: Mapping[str, Any] = binding.get("target") or {}
    errors: list[FieldError] = []
    kind = target.get("kind") or ""
    if kind not in ("", "Node"):
        errors.append(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        texts = [str(error) for error in errors]
        raise plain_error(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def bind(pod: Json, binding: Mapping[str, Any], now: str) -> None:
    """Assigns `pod` to the node of a Binding, in place; raises Conflict when it cannot be assigned."""
    meta = pod["metadata"]
    spec = section(pod, "spec")
    name = meta.get("name") or ""
    why = ""
    if meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", "", name, why)
    spec["nodeName"] = binding["target"]["name"]
    given: Mapping[str, Any] = binding.get("metadata") or {}
    for key in ("annotations", "labels"):
        if values := given.get(key):
            section(meta, key).update(values)
    status = section(pod, "status")
    status.pop("nominatedNodeName", None)
    set_condition(status, condition("PodScheduled", "True", now))


_RESIZE_KEYS: Final = ("resources", "resizePolicy")


class PodResizeStrategy(PodStrategy):
    """PUT and PATCH on pods/<name>/resize: cpu and memory of containers and of the pod."""

    status_metadata = NO_METADATA

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        spec: Json = obj.get("spec") or {}
        before: Json = old.get("spec") or {}
        lists = [(spec.get(key) or [], before.get(key) or []) for key in ("containers", "initContainers")]
        if any(len(new) != len(was) for new, was in lists):
            return
        keep_metadata(obj, old)
        merged = dict(before)
        if "resources" in spec:
            merged["resources"] = spec["resources"]
        else:
            merged.pop("resources", None)
        for key, (new, was) in zip(("containers", "initContainers"), lists, strict=True):
            if new:
                merged[key] = _with_resources(new, was)
        obj["spec"] = merged
        obj["status"] = old.get("status") or {}

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or ()):
            return [forbidden("", "static pods cannot be resized")]
        spec: Json = obj.get("spec") or {}
        before: Json = old.get("spec") or {}
        if (before.get("os") or {}).get("name") == "windows":
            return [forbidden("", "windows pods cannot be resized")]
        errors = validate_pod(obj)
        status: Mapping[str, Any] = old.get("status") or {}
        if (status.get("qosClass") or qos_class(before)) != qos_class(spec):
            shown = (obj.get("status") or {}).get("qosClass") or ""
            errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
        for item in status.get("containerStatuses") or ():
            if (item.get("state") or {}).get("running") is not None:
                if item.get("resources") is None:
                    errors.append(forbidden("spec", "Pod running on node without support for resize"))
                break
        changed = dict(spec)
        if _has_resources(spec) or _has_resources(before):
            errors += _validate_pod_level_resize(changed, before)
        order = _validate_order(spec, before)
        if order:
            return errors + order
        return errors + _validate_resize(changed, before, errors)


def _with_resources(new: Sequence[Json], old: Sequence[Json]) -> list[Json]:
    merged: list[Json] = []
    for container, was in zip(new, old, strict=True):
        if container.get("name") != was.get("name"):
            return list(new)
        mixed = {key: value for key, value in was.items() if key not in _RESIZE_KEYS}
        mixed.update({key: container[key] for key in _RESIZE_KEYS if key in container})
        merged.append(mixed)
    return merged


def _has_resources(spec: Json) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _validate_order(spec: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("containers", "initContainers"):
        new, was = spec.get(key) or [], old.get(key) or []
        if len(new) != len(was):
            errors.append(forbidden(f"spec.{key}", f"{key} may not be added or removed on resize"))
            continue
        errors += [
            forbidden(f"spec.{key}[{index}].name", f"{key} may not be renamed or reordered on resize")
            for index, (container, before) in enumerate(zip(new, was, strict=True))
            if container.get("name") != before.get("name")
        ]
    return errors


def _removed(new: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> bool:
    return bool(old) and not set(old or ()) <= set(new or ())


def _without_compute(resources: Json | None, old: Json | None) -> Json:
    """`resources` with cpu and memory as they were."""
    result = dict(resources or {})
    for key in ("limits", "requests"):
        kept = {
            name: value
            for name, value in ((resources or {}).get(key) or {}).items()
            if name not in ("cpu", "memory")
        }
        before = (old or {}).get(key) or {}
        kept.update({name: before[name] for name in ("cpu", "memory") if name in before})
        result[key] = kept
    return result


def _validate_pod_level_resize(changed: Json, old: Json) -> list[FieldError]:
    before = old.get("resources")
    if before is not None and changed.get("resources") is None:
        return [forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors: list[FieldError] = []
    new = changed.get("resources") or {}
    errors += [
        forbidden(f"spec.resources.{key}", f"pod-level resource {key} cannot be removed")
        for key in ("requests", "limits")
        if _removed(new.get(key), (before or {}).get(key))
    ]
    kept = _without_compute(changed.get("resources"), before)
    changed["resources"] = kept if before is not None or any(kept.values()) else None
    if not same(changed["resources"], before):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _validate_resize(changed: Json, old: Json, earlier: Sequence[FieldError]) -> list[FieldError]:
    errors: list[FieldError] = []
    only = "only cpu and memory resources are mutable"
    for key in ("initContainers", "containers"):
        for index, (container, was) in enumerate(
            zip(changed.get(key) or [], old.get(key) or [], strict=True)
        ):
            for name in ("requests", "limits"):
                new_list = (container.get("resources") or {}).get(name)
                if _removed(new_list, (was.get("resources") or {}).get(name)):
                    path = f"spec.{key}[{index}].resources.{name}"
                    errors.append(forbidden(path, f"resource {name} cannot be removed"))
    for key in ("containers", "initContainers"):
        munged: list[Json] = []
        for index, (container, was) in enumerate(
            zip(changed.get(key) or [], old.get(key) or [], strict=True)
        ):
            kept = {
                **container,
                "resources": _without_compute(container.get("resources"), was.get("resources")),
            }
            munged.append(kept)
            if same(kept, was):
                if key == "initContainers" and not same(container, was):
                    errors += _validate_init_resize(container, index)
            elif key == "containers":
                errors.append(forbidden("spec", only))
            else:
                text = "only cpu and memory resources for init or sidecar containers are mutable"
                errors.append(forbidden(f"spec.initContainers[{index}]", text))
        if munged:
            changed[key] = munged
    if not errors and not earlier and not same(changed, old):
        errors.append(forbidden("spec", only))
    return errors


def _validate_init_resize(container: Json, index: int) -> list[FieldError]:
    if container.get("restartPolicy") == "Always":
        return []
    text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
    return [
        forbidden(f"spec.initContainers[{index}]", text)
        for policy in container.get("resizePolicy") or ()
        if policy.get("restartPolicy") == "RestartContainer"
    ]


class PodEphemeralContainersStrategy(PodStrategy):
    """PUT and PATCH on pods/<name>/ephemeralcontainers: containers are added, never changed."""

    status_metadata = NO_METADATA

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        containers = (obj.get("spec") or {}).get("ephemeralContainers")
        spec = dict(old.get("spec") or {})
        if containers:
            spec["ephemeralContainers"] = containers
        else:
            spec.pop("ephemeralContainers", None)
        obj["spec"] = spec
        obj["status"] = old.get("status") or {}
        keep_metadata(obj, old)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or ()):
            return [forbidden("", "static pods do not support ephemeral containers")]
        errors = validate_pod(obj)
        path = "spec.ephemeralContainers"
        present = {
            item.get("name"): item for item in (obj.get("spec") or {}).get("ephemeralContainers") or ()
        }
        for was in (old.get("spec") or {}).get("ephemeralContainers") or ():
            name = was.get("name")
            if name not in present:
                text = f'existing ephemeral containers "{name}" may not be removed\n'
                errors.append(forbidden(path, text))
            elif not same(present[name], was):
                changes = internal_diff("EphemeralContainer", was, present[name])
                text = f'existing ephemeral containers "{name}" may not be changed\n{changes}'
                errors.append(forbidden(path, text))
        return errors


def keep_metadata(obj: Json, old: Json) -> None:
    """Labels, annotations, finalizers and owners as they are stored."""
    meta, before = obj["metadata"], old["metadata"]
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if before.get(key):
            meta[key] = before[key]
        else:
            meta.pop(key, None)
