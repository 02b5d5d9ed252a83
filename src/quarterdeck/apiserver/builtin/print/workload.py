"""Rows of kinds that run pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quarterdeck.api.jsonobject import Json

from .text import (
    NONE,
    UNKNOWN,
    UNSET,
    age,
    bool_text,
    container_texts,
    creation_age,
    human_duration,
    is_true,
    labels_text,
    parse_time,
    selector_text,
)


def _parts(obj: Json) -> tuple[str, Json, Json]:
    return obj["metadata"].get("name") or "", obj.get("spec") or {}, obj.get("status") or {}


def deployment_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    updated, available = status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0
    containers, images = container_texts(spec.get("template"))
    selector = selector_text(spec.get("selector"), "")
    return [name, ready, updated, available, creation_age(obj, now), containers, images, selector]


def replica_set_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    counts = [spec.get("replicas") or 0, status.get("replicas") or 0, status.get("readyReplicas") or 0]
    selector = selector_text(spec.get("selector"))
    return [name, *counts, creation_age(obj, now), *container_texts(spec.get("template")), selector]


def replication_controller_cells(obj: Json, now: datetime) -> list[Any]:
    cells = replica_set_cells({**obj, "spec": {**(obj.get("spec") or {}), "selector": None}}, now)
    cells[-1] = labels_text((obj.get("spec") or {}).get("selector"))
    return cells


def stateful_set_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}"
    return [name, ready, creation_age(obj, now), *container_texts(spec.get("template"))]


def scale_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [name, spec.get("replicas") or 0, status.get("replicas") or 0, creation_age(obj, now)]


def daemon_set_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    template = spec.get("template") or {}
    nodes = labels_text((template.get("spec") or {}).get("nodeSelector"))
    selector = selector_text(spec.get("selector"))
    counts = [status.get(key) or 0 for key in keys]
    return [name, *counts, nodes, creation_age(obj, now), *container_texts(template), selector]


_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def job_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    succeeded, wanted = status.get("succeeded") or 0, spec.get("completions")
    if wanted is not None:
        completions = f"{succeeded}/{wanted}"
    elif (parallelism := spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {parallelism}"
    else:
        completions = f"{succeeded}/1"
    duration = ""
    if (start := parse_time(status.get("startTime"))) is not None:
        end = parse_time(status.get("completionTime")) or now
        duration = human_duration((end - start).total_seconds())
    state = _job_state(obj, status.get("conditions"))
    containers, images = container_texts(spec.get("template"))
    selector = selector_text(spec.get("selector"))
    return [name, state, completions, duration, creation_age(obj, now), containers, images, selector]


def _job_state(obj: Json, conditions: Sequence[Mapping[str, Any]] | None) -> str:
    for kind in ("Complete", "Failed"):
        if is_true(conditions, kind):
            return kind
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in _JOB_STATES if is_true(conditions, kind)), "Running")


def cron_job_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    zone = spec.get("timeZone")
    return [
        name,
        spec.get("schedule") or "",
        NONE if zone is None else zone,
        bool_text(spec.get("suspend")),
        len(status.get("active") or ()),
        age(last, now) if last else NONE,
        creation_age(obj, now),
        *container_texts(job.get("template")),
        selector_text(job.get("selector")),
    ]


def autoscaler_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    metrics = _metrics_text(spec.get("metrics") or (), status.get("currentMetrics") or ())
    return [
        name,
        f"{target.get('kind') or ''}/{target.get('name') or ''}",
        metrics,
        UNSET if least is None else str(least),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        creation_age(obj, now),
    ]


def _metrics_text(metrics: Sequence[Json], readings: Sequence[Json]) -> str:
    if not metrics:
        return NONE
    texts = [
        _metric_text(metric, readings[index] if index < len(readings) else {})
        for index, metric in enumerate(metrics)
    ]
    if len(texts) > 2:
        return f"{', '.join(texts[:2])} + {len(texts) - 2} more..."
    return ", ".join(texts)


_METRIC_KEYS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _metric_text(metric: Json, reading: Json) -> str:
    kind = metric.get("type") or ""
    key = _METRIC_KEYS.get(kind)
    if key is None:
        return "<unknown type>"
    source: Json = metric.get(key) or {}
    target: Json = source.get("target") or {}
    known: Json | None = reading.get(key)
    current: Json = (known or {}).get("current") or {}
    if key in ("resource", "containerResource"):
        if target.get("averageValue") is not None:
            shown = UNKNOWN if known is None else str(current.get("averageValue") or "0")
            return f"{source.get('name')}: {shown}/{target['averageValue']}"
        percent = current.get("averageUtilization")
        shown = UNKNOWN if percent is None else f"{percent}%"
        wanted = target.get("averageUtilization")
        return f"{source.get('name')}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
    if key == "pods":
        shown = UNKNOWN if known is None else str(current.get("averageValue") or "0")
        return f"{shown}/{target.get('averageValue')}"
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue') or UNKNOWN}/{target['averageValue']} (avg)"
    shown = UNKNOWN if known is None else str(current.get("value") or "0")
    return f"{shown}/{target.get('value')}"


def disruption_budget_cells(obj: Json, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name,
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status.get("disruptionsAllowed") or 0,
        creation_age(obj, now),
    ]


def controller_revision_cells(obj: Json, now: datetime) -> list[Any]:
    meta = obj["metadata"]
    owner = next((item for item in meta.get("ownerReferences") or () if item.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = (owner.get("apiVersion") or "").rpartition("/")[0]
        kind = (owner.get("kind") or "").lower()
        controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [meta.get("name"), controller, obj.get("revision") or 0, creation_age(obj, now)]


def pod_template_cells(obj: Json, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    labels = labels_text((template.get("metadata") or {}).get("labels"))
    return [obj["metadata"].get("name"), *container_texts(template), labels]
