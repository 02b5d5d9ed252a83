"""StatefulSet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative
from quarterdeck.apiserver.builtin.kind import SpecStrategy, same, section
from quarterdeck.apiserver.builtin.pod.claimspec import validate_claim_spec
from quarterdeck.apiserver.builtin.pod.defaults import default_claim_spec, default_template
from quarterdeck.apiserver.builtin.pod.spec import validate_template
from quarterdeck.apiserver.document.internalform import internal_form
from quarterdeck.apiserver.metadata import invalid_json, label_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .template import (
    collision_count_decremented,
    int_or_percent,
    is_usable_selector,
    shown_selector,
    validate_at_most_100_percent,
    validate_counts,
    validate_int_or_percent,
    validate_long_running,
    validate_selected,
    validate_selector,
    workload_warnings,
)

_COUNTS: Final = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)
_MUTABLE: Final = frozenset(
    (
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    )
)
_IMMUTABLE_SPEC: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class StatefulSetStrategy(SpecStrategy):
    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        return label_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        update = section(spec, "updateStrategy")
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            section(update, "rollingUpdate")
        rolling = update.get("rollingUpdate")
        if update["type"] == "RollingUpdate" and rolling is not None:
            if rolling.get("partition") is None:
                rolling["partition"] = 0
            rolling.pop("maxUnavailable", None)  # alpha, off
        retention = section(spec, "persistentVolumeClaimRetentionPolicy")
        for key in ("whenDeleted", "whenScaled"):
            if not retention.get(key):
                retention[key] = "Retain"
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        if spec.get("serviceName") is None:
            spec["serviceName"] = ""
        default_template(section(spec, "template"))
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["apiVersion"] = "v1"
            claim["kind"] = "PersistentVolumeClaim"
            section(claim, "metadata").pop("creationTimestamp", None)
            default_claim_spec(section(claim, "spec"))
            status = section(claim, "status")
            if not status.get("phase"):
                status["phase"] = "Pending"
        status = section(obj, "status")
        status.setdefault("replicas", 0)
        status.setdefault("availableReplicas", 0)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return _validate_spec(obj.get("spec") or {}, new=True)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        errors = _validate_spec(spec, new=False)
        keys = (spec.keys() | before.keys()) - _MUTABLE
        if not all(same(spec.get(key), before.get(key)) for key in keys):
            errors.append(forbidden("spec", _IMMUTABLE_SPEC))
        return errors

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        status = obj.get("status") or {}
        within = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        errors = validate_counts(status, _COUNTS, within=within, ready="status.readyReplicas")
        return errors + collision_count_decremented(status, old.get("status") or {})

    def warnings(self, obj: Json, old: Json | None) -> Iterator[str]:
        yield from workload_warnings(obj, old, named=False)
        limit = (obj.get("spec") or {}).get("revisionHistoryLimit")
        if limit is not None and limit < 0:
            yield (
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                "a value >= 0 is recommended"
            )


def _validate_spec(spec: Json, *, new: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, text))
    errors += _validate_update_strategy(spec.get("updateStrategy") or {})
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        if (value := retention.get(key) or "") not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            errors.append(not_supported(path, value, ("Retain", "Delete")))
    claims = spec.get("volumeClaimTemplates") or ()
    if new:
        for index, claim in enumerate(claims):
            path = f"spec.volumeClaimTemplates[{index}].spec"
            errors += validate_claim_spec(claim.get("spec") or {}, path)
    errors += non_negative(spec.get("replicas"), "spec.replicas")
    errors += non_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    errors += non_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if new and (name := spec.get("serviceName")):
        errors += [invalid("spec.serviceName", name, text) for text in label_errors(name)]
    selector = spec.get("selector")
    errors += validate_selector(selector, "spec.selector", "statefulset")
    template: Json = spec.get("template") or {}
    path = "spec.template"
    if selector is not None and not is_usable_selector(selector):
        errors.append(invalid_json("spec.selector", shown_selector(selector), ""))
    else:
        errors += validate_selected(selector, template, path)
        errors += validate_template(_with_claims(template, claims), path)
    return errors + validate_long_running(template, path, "StatefulSet")


def _validate_update_strategy(strategy: Json) -> list[FieldError]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is None:
            return []
        shown = {"Partition": rolling.get("partition") or 0, "MaxUnavailable": rolling.get("maxUnavailable")}
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [invalid_json(f"{path}.rollingUpdate", shown, text)]
    if kind != "RollingUpdate":
        shown = internal_form("StatefulSetUpdateStrategy", strategy)
        return [invalid_json(path, shown, "must be 'RollingUpdate' or 'OnDelete'")]
    errors = non_negative((rolling or {}).get("partition"), f"{path}.rollingUpdate.partition")
    unavailable = (rolling or {}).get("maxUnavailable")
    if unavailable is not None:
        path = f"{path}.rollingUpdate.maxUnavailable"
        errors += validate_int_or_percent(unavailable, path)
        if int_or_percent(unavailable) == 0:
            errors.append(invalid(path, unavailable, "cannot be 0"))
        errors += validate_at_most_100_percent(unavailable, path)
    return errors


def _with_claims(template: Json, claims: Any) -> Json:
    """The template as its pods will look: claims are volumes, host name and subdomain come later."""
    spec: Json = template.get("spec") or {}
    if not claims and not spec.get("subdomain") and not spec.get("hostname"):
        return template
    changed = {key: value for key, value in spec.items() if key not in ("subdomain", "hostname")}
    if claims:
        names = [(claim.get("metadata") or {}).get("name") or "" for claim in claims]
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        volumes += [item for item in spec.get("volumes") or () if item.get("name") not in names]
        changed["volumes"] = volumes
    return {**template, "spec": changed}
