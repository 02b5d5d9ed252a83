"""Rows of the remaining kinds: access, admission, storage classes, networking, flow control, devices."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from quarterdeck.api.jsonobject import Json

from .core import balancer_addresses
from .text import NONE, UNSET, creation_age, human_duration, is_true, selector_text


def _name(obj: Json) -> str:
    return obj["metadata"].get("name") or ""


def _spec(obj: Json) -> Json:
    spec: Json = obj.get("spec") or {}
    return spec


def name_age_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), creation_age(obj, now)]


def name_created_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


def lease_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), _spec(obj).get("holderIdentity") or "", creation_age(obj, now)]


def priority_class_cells(obj: Json, now: datetime) -> list[Any]:
    default, policy = bool(obj.get("globalDefault")), obj.get("preemptionPolicy") or ""
    return [_name(obj), obj.get("value") or 0, default, creation_age(obj, now), policy]


def role_binding_cells(obj: Json, now: datetime) -> list[Any]:
    reference = obj.get("roleRef") or {}
    users, groups, accounts = [], [], []
    for subject in obj.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name") or ""
        if kind == "ServiceAccount":
            accounts.append(f"{subject.get('namespace') or ''}/{name}")
        elif kind == "User":
            users.append(name)
        elif kind == "Group":
            groups.append(name)
    role = f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
    subjects = [", ".join(names) for names in (users, groups, accounts)]
    return [_name(obj), role, creation_age(obj, now), *subjects]


def webhook_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("webhooks") or ()), creation_age(obj, now)]


def _policy_cells(obj: Json, now: datetime, key: str) -> list[Any]:
    spec = _spec(obj)
    kind = spec.get("paramKind")
    shown = f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}" if kind else UNSET
    return [_name(obj), len(spec.get(key) or ()), shown, creation_age(obj, now)]


def validating_policy_cells(obj: Json, now: datetime) -> list[Any]:
    return _policy_cells(obj, now, "validations")


def mutating_policy_cells(obj: Json, now: datetime) -> list[Any]:
    return _policy_cells(obj, now, "mutations")


def policy_binding_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    reference = spec.get("paramRef") or {}
    shown = UNSET
    if reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        shown = selector_text(reference["selector"], "")
    return [_name(obj), spec.get("policyName") or "", shown, creation_age(obj, now)]


_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _default_mark(obj: Json, *annotations: str) -> str:
    present = obj["metadata"].get("annotations") or {}
    return " (default)" if any(present.get(key) == "true" for key in annotations) else ""


def storage_class_cells(obj: Json, now: datetime) -> list[Any]:
    return [
        _name(obj) + _default_mark(obj, *_DEFAULT_CLASS),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        creation_age(obj, now),
    ]


def attributes_class_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("driverName") or "", creation_age(obj, now)]


def attachment_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool((obj.get("status") or {}).get("attached"))
    where = [spec.get("attacher") or "", volume, spec.get("nodeName") or ""]
    return [_name(obj), *where, attached, creation_age(obj, now)]


def csi_driver_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    tokens = spec.get("tokenRequests")
    audiences = UNSET if tokens is None else ",".join(item.get("audience") or "" for item in tokens)
    return [
        _name(obj),
        spec.get("attachRequired") is not False,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        creation_age(obj, now),
    ]


def csi_node_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), len(_spec(obj).get("drivers") or ()), creation_age(obj, now)]


def ingress_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    rules = spec.get("rules") or ()
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == 3
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    shown = ",".join(hosts) or "*"
    if more:
        shown = f"{shown} + {len(rules) - 3} more..."
    balancer = (obj.get("status") or {}).get("loadBalancer") or {}
    return [
        _name(obj),
        spec.get("ingressClassName") or NONE,
        shown,
        ",".join(balancer_addresses(balancer)),
        "80, 443" if spec.get("tls") else "80",
        creation_age(obj, now),
    ]


def ingress_class_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    parameters = spec.get("parameters")
    shown = NONE
    if parameters is not None:
        group = parameters.get("apiGroup")
        kind = parameters.get("kind") or ""
        shown = f"{kind}{f'.{group}' if group is not None else ''}/{parameters.get('name') or ''}"
    name = _name(obj) + _default_mark(obj, "ingressclass.kubernetes.io/is-default-class")
    return [name, spec.get("controller") or "", shown, creation_age(obj, now)]


def network_policy_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), selector_text(_spec(obj).get("podSelector")), creation_age(obj, now)]


def ip_address_cells(obj: Json, now: datetime) -> list[Any]:
    parent = _spec(obj).get("parentRef")
    shown = NONE
    if parent is not None:
        group = f".{parent['group']}" if parent.get("group") else ""
        place = f"/{parent['namespace']}" if parent.get("namespace") else ""
        shown = f"{parent.get('resource') or ''}{group}".lower() + f"{place}/{parent.get('name') or ''}"
    return [_name(obj), shown, creation_age(obj, now)]


def service_cidr_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), ",".join(_spec(obj).get("cidrs") or ()), creation_age(obj, now)]


def runtime_class_cells(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), obj.get("handler") or "", creation_age(obj, now)]


def signing_request_cells(obj: Json, now: datetime) -> list[Any]:
    spec, status = _spec(obj), obj.get("status") or {}
    kinds = {item.get("type") for item in status.get("conditions") or ()}
    state = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        state += ",Failed"
    if status.get("certificate"):
        state += ",Issued"
    seconds = spec.get("expirationSeconds")
    return [
        _name(obj),
        creation_age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else human_duration(seconds),
        state,
    ]


def flow_schema_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    method = spec.get("distinguisherMethod")
    conditions = (obj.get("status") or {}).get("conditions") or ()
    missing = next((item.get("status") for item in conditions if item.get("type") == "Dangling"), "?")
    return [
        _name(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name") or "",
        spec.get("matchingPrecedence") or 0,
        NONE if method is None else method.get("type") or "",
        creation_age(obj, now),
        missing,
    ]


def priority_level_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    limited = spec.get("limited")
    cells: list[Any] = [NONE] * 4
    if limited is not None:
        cells[0] = limited.get("nominalConcurrencyShares") or 0
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            cells[1:] = [queuing.get(key) or 0 for key in ("queues", "handSize", "queueLengthLimit")]
    return [_name(obj), spec.get("type") or "", *cells, creation_age(obj, now)]


def api_service_cells(obj: Json, now: datetime) -> list[Any]:
    service = _spec(obj).get("service")
    place = "Local" if service is None else f"{service.get('namespace')}/{service.get('name')}"
    conditions = (obj.get("status") or {}).get("conditions") or ()
    available = "Unknown"
    for item in conditions:
        if item.get("type") == "Available":
            available = item.get("status") or "Unknown"
            if not is_true(conditions, "Available") and item.get("reason"):
                available = f"{available} ({item['reason']})"
    return [_name(obj), place, available, creation_age(obj, now)]


def resource_claim_cells(obj: Json, now: datetime) -> list[Any]:
    status = obj.get("status") or {}
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        if not deleted:
            states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return [_name(obj), ",".join(states), creation_age(obj, now)]


def resource_slice_cells(obj: Json, now: datetime) -> list[Any]:
    spec = _spec(obj)
    pool = (spec.get("pool") or {}).get("name") or ""
    return [_name(obj), spec.get("nodeName") or "", spec.get("driver") or "", pool, creation_age(obj, now)]
