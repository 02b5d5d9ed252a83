"""The sections as lines of text, for pipes and logs. Pure but for the clock."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.health.field import age as age_at
from quarterdeck.health.field import moment as health_moment
from quarterdeck.health.field import plural

_UID: Final = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def gang_name(name: str) -> str:
    """The name of a gang without the UID that the scheduler puts behind it."""
    return _UID.sub("", name).removeprefix("pg-")


def natural(name: str) -> list[tuple[int, str]]:
    """The order that people expect: node-2 before node-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def queue_tree(queues: Mapping[str, Json], *, by_use: bool = False) -> list[Json]:
    """Queues, each followed by those below it; queues in a circle are left at the end."""

    def order(queue: Json) -> tuple[Any, ...]:
        use = -float(queue["gpu"]["allocated"]) if by_use else 0.0
        return use, -int(queue.get("priority", 100)), natural(queue["name"])

    below: dict[str, list[Json]] = {}
    for queue in sorted(queues.values(), key=order):
        parent = queue.get("parent", "")
        below.setdefault(parent if parent in queues else "", []).append(queue)
    found: dict[str, Json] = {}

    def add(name: str) -> None:
        for queue in below.get(name, ()):
            if queue["name"] not in found:
                found[queue["name"]] = queue
                add(queue["name"])

    add("")
    rest = [queue for queue in sorted(queues.values(), key=order) if queue["name"] not in found]
    return [*found.values(), *rest]


def age(time: str, now: datetime | None = None) -> str:
    """How long ago a moment was; one that is just to come, by another clock, is now."""
    then, moment = health_moment(time), now or datetime.now(UTC)
    return age_at(time, max(moment, then)) if then is not None else ""


def plain_lines(sections: Mapping[str, Mapping[str, Json]]) -> Iterator[str]:
    """What is wrong, then a line about each node, queue, gang, training and service."""
    health = sections.get("health", {}).get("health")
    if health is not None:
        yield f"health: {health['summary']}"
    for problem in sorted(sections.get("problems", {}).values(), key=lambda each: int(each["place"])):
        yield f"{problem['severity']}: {problem['head']}: {problem['reason']}"
        yield f"  to do: {problem['remedy']}"
    for _, node in sorted(sections.get("nodes", {}).items(), key=lambda item: natural(item[0])):
        used = sum(guest["gpus"] for guest in node["guests"])
        state = "ready" if node["ready"] else "not ready"
        gpus, pods = plural(node["gpus"], "GPU"), plural(node["pods"], "pod")
        yield f"node {node['name']}: {state}, {used:g} of {gpus}, {pods}"
    for queue in queue_tree(sections.get("queues", {})):
        share = queue["gpu"]
        fair = "" if queue["fairShare"] is None else f", fair share {queue['fairShare']:g}"
        quota = "unbounded" if share["quota"] < 0 else f"{share['quota']:g}"
        yield f"queue {queue['name']}: {plural(share['allocated'], 'GPU')}, quota {quota}{fair}"
    for key, gang in sorted(sections.get("gangs", {}).items()):
        namespace, _, name = key.partition("/")
        placed = f"{gang['placed']} of {plural(gang['pods'], 'pod')} placed"
        yield f"gang {namespace}/{gang_name(name)}: {gang['state']}, {placed}"
        yield from (f"  {line}" for why in gang["why"] for line in why.strip().splitlines())
    for key, job in sorted(sections.get("trainings", {}).items()):
        progress = "" if job["progress"] is None else f", {job['progress']} %"
        yield f"training {key}: {job['state'].lower()}{progress}"
    for key, each in sorted(sections.get("inference", {}).items()):
        yield f"inference {key}: {each['available']} of {plural(each['replicas'], 'replica')} available"
    for key, pool in sorted(sections.get("addresses", {}).items()):
        blocks = plural(len(pool["blocks"]), "block")
        yield f"pool {key}: {pool['cidr']}, {blocks}, {pool['used'] * 100:.3g} % taken"
    for key, group in sorted(sections.get("nodegroups", {}).items()):
        yield f"node group {key}: {group['ready']} of {group['desired']} ready"
