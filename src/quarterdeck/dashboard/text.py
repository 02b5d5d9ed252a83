"""The sections as lines of text, for pipes and logs. Pure but for the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from quarterdeck.api.jsonobject import Json

_UID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def gang_name(name: str) -> str:
    """The name of a gang without the UID that the scheduler puts behind it."""
    return _UID.sub("", name).removeprefix("pg-")


def age(time: str, now: datetime | None = None) -> str:
    """How long ago a moment was, in the largest unit that says something."""
    try:
        then = datetime.fromisoformat(time)
    except ValueError:
        return ""
    seconds = max(0, int(((now or datetime.now(UTC)) - then).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def plain_lines(sections: Mapping[str, Mapping[str, Json]]) -> Iterator[str]:
    """A line about each node, queue, gang, training and service."""
    for _, node in sorted(sections.get("nodes", {}).items()):
        used = sum(guest["gpus"] for guest in node["guests"])
        state = "ready" if node["ready"] else "not ready"
        yield f"node {node['name']}: {state}, {used:g} of {node['gpus']} GPUs, {node['pods']} pods"
    for _, queue in sorted(sections.get("queues", {}).items()):
        share = queue["gpu"]
        fair = "" if queue["fairShare"] is None else f", fair share {queue['fairShare']:g}"
        quota = "unbounded" if share["quota"] < 0 else f"{share['quota']:g}"
        yield f"queue {queue['name']}: {share['allocated']:g} GPUs, quota {quota}{fair}"
    for key, gang in sorted(sections.get("gangs", {}).items()):
        namespace, _, name = key.partition("/")
        placed = f"{gang['placed']} of {gang['pods']} pods placed"
        yield f"gang {namespace}/{gang_name(name)}: {gang['state']}, {placed}"
        yield from (f"  {line}" for why in gang["why"] for line in why.strip().splitlines())
    for key, job in sorted(sections.get("trainings", {}).items()):
        progress = "" if job["progress"] is None else f", {job['progress']} %"
        yield f"training {key}: {job['state'].lower()}{progress}"
    for key, each in sorted(sections.get("inference", {}).items()):
        yield f"inference {key}: {each['available']} of {each['replicas']} replicas available"
    for key, pool in sorted(sections.get("addresses", {}).items()):
        yield f"pool {key}: {pool['cidr']}, {len(pool['blocks'])} blocks, {pool['used'] * 100:.3g} % taken"
    for key, group in sorted(sections.get("nodegroups", {}).items()):
        yield f"node group {key}: {group['ready']} of {group['desired']} ready"
