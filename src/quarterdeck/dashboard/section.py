"""The rows of the page, section by section, from the digests of all objects. Pure.

A section is a dictionary of rows by key, so that two states of it can be compared row by row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from quarterdeck.api.jsonobject import Json

from .addressmap import area, share, sort_key

Section: TypeAlias = dict[str, Json]
Digests: TypeAlias = Mapping[str, Mapping[str, Json]]
"""Digests by key, by kind."""

EVENTS: Final = 300
"""The newest that the page shows."""
_ZONE: Final = "topology.kubernetes.io/zone"


def nodes(digests: Digests) -> Section:
    """Nodes with what is on their GPUs."""
    guests: dict[str, list[Json]] = defaultdict(list)
    for pod in digests["pods"].values():
        if pod["node"] and not pod["ended"]:
            guests[pod["node"]].append(pod)
    levels = _levels(digests)
    found: Section = {}
    for key, node in digests["nodes"].items():
        pods = sorted(guests.get(node["name"], ()), key=lambda pod: (pod["gang"], pod["name"]))
        labels = node["labels"]
        found[key] = {
            **{name: node[name] for name in ("name", "ready", "cordoned", "gpus")},
            "domain": [labels[level] for level in levels if level in labels],
            "pods": len(pods),
            "cpu": [round(sum(pod["cpu"] for pod in pods), 2), node["cpu"]],
            "memory": [sum(pod["memory"] for pod in pods), node["memory"]],
            "guests": [
                {"gang": pod["gang"], "pod": pod["name"], "gpus": pod["gpus"]} for pod in pods if pod["gpus"]
            ],
            "since": node["since"],
        }
    return found


def _levels(digests: Digests) -> list[str]:
    """The labels to group nodes by: those of the topology with the most levels, or the zone."""
    found = (
        [level for level in topology["levels"] if level != "kubernetes.io/hostname"]
        for topology in digests["topologies"].values()
    )
    return max(found, key=len, default=[]) or [_ZONE]


def queues(digests: Digests, fair_shares: Mapping[str, float]) -> Section:
    """Queues with quota, fair share and use, and how deep in the tree they are."""
    found = digests["queues"]

    def depth(name: str) -> int:
        above, steps = found[name]["parent"], 0
        while above in found and steps < len(found):
            above, steps = found[above]["parent"], steps + 1
        return steps

    return {
        key: {**queue, "depth": depth(key), "fairShare": fair_shares.get(key)} for key, queue in found.items()
    }


def gangs(digests: Digests) -> Section:
    """Gangs: pod groups, and other pods by whoever controls them."""
    members: dict[str, list[Json]] = defaultdict(list)
    for pod in digests["pods"].values():
        members[pod["gang"]].append(pod)
    groups = digests["podgroups"]
    found: Section = {}
    for key in members.keys() | groups.keys():
        pods = members.get(key, [])
        group = groups.get(key)
        row = _gang(pods)
        if group is not None:
            row.update(
                {
                    name: group[name]
                    for name in ("namespace", "name", "queue", "minimum", "priority", "owner", "since")
                }
            )
            row["why"] = group["why"] or row["why"]
        if not row["waiting"]:
            row["why"] = []
        row["runs"] = row["state"] in ("running", "partly") and row["placed"] >= row["minimum"]
        row["grouped"] = group is not None
        found[key] = row
    return found


def _gang(pods: list[Json]) -> Json:
    waiting = [pod for pod in pods if pod["waits"]]
    placed = [pod for pod in pods if pod["node"] and not pod["ended"]]
    ended = [pod for pod in pods if pod["ended"]]
    if any(pod["failing"] for pod in placed):
        state = "failing"
    elif waiting:
        state = "partly" if placed else "waiting"
    elif any(pod["phase"] != "Running" for pod in placed):
        state = "starting"
    elif placed:
        state = "not ready" if any(pod["unready"] for pod in placed) else "running"
    else:
        state = "failed" if any(pod["phase"] == "Failed" for pod in ended) else "ended" if ended else "empty"
    namespace, _, name = pods[0]["gang"].partition("/") if pods else ("", "", "")
    return {
        "namespace": namespace,
        "name": name,
        "queue": "",
        "minimum": 0,
        "priority": "",
        "owner": "",
        "since": min((pod["since"] for pod in pods), default=""),
        "state": state,
        "pods": len(pods),
        "waiting": len(waiting),
        "placed": len(placed),
        "ended": len(ended),
        "restarts": sum(pod["restarts"] for pod in pods),
        "gpus": _sum(pods, "gpus"),
        "placedGpus": _sum(placed, "gpus"),
        "why": sorted({pod["why"] for pod in waiting if pod["why"]}),
    }


def _sum(pods: Iterable[Json], name: str) -> float:
    return round(float(sum(pod[name] for pod in pods if not pod["ended"])), 3)


def trainings(digests: Digests) -> Section:
    """TrainJobs with their progress and their pods, whose logs can be read."""
    members: dict[str, list[Json]] = defaultdict(list)
    for pod in digests["pods"].values():
        if pod["jobset"]:
            members[f"{pod['namespace']}/{pod['jobset']}"].append(pod)
    found: Section = {}
    for key, job in digests["trainjobs"].items():
        pods = sorted(members.get(key, ()), key=lambda pod: str(pod["name"]))
        progress = 100 if job["state"] == "Complete" else job["progress"]
        waits = bool(pods) and job["state"] == "Running" and all(pod["waits"] for pod in pods)
        found[key] = {
            **job,
            "state": "Waiting" if waits else job["state"],
            "progress": progress,
            "gang": pods[0]["gang"] if pods else "",
            "pods": [
                {name: pod[name] for name in ("name", "phase", "node", "containers", "gpus")} for pod in pods
            ],
        }
    return found


def inference(digests: Digests) -> Section:
    """PodCliqueSets with the order in which their roles start, and how far an update is."""
    cliques, groups = _by_set(digests["podcliques"]), _by_set(digests["scalinggroups"])
    return {
        key: {**each, "stages": stages(each), "cliques": cliques.get(key, []), "groups": groups.get(key, [])}
        for key, each in digests["podcliquesets"].items()
    }


def _by_set(found: Mapping[str, Json]) -> dict[str, list[Json]]:
    by_set: dict[str, list[Json]] = defaultdict(list)
    for _, each in sorted(found.items()):
        by_set[f"{each['namespace']}/{each['set']}"].append(each)
    return by_set


def stages(clique_set: Json) -> list[list[str]]:
    """The roles that start together, stage after stage."""
    roles: list[Json] = clique_set["roles"]
    names = [role["name"] for role in roles]
    if clique_set["order"] == "CliqueStartupTypeInOrder":
        return [[name] for name in names]
    if clique_set["order"] != "CliqueStartupTypeExplicit":
        return [names]
    after = {role["name"]: {each for each in role["after"] if each in names} for role in roles}
    found: list[list[str]] = []
    started: set[str] = set()
    while len(started) < len(names):
        ready = [name for name in names if name not in started and after[name] <= started]
        if not ready:  # a circle, which admission refuses
            return [*found, [name for name in names if name not in started]]
        found.append(ready)
        started.update(ready)
    return found


def addresses(digests: Digests) -> Section:
    """Pools with their blocks as areas of a square."""
    blocks: dict[str, list[Json]] = defaultdict(list)
    for each in digests["subnets"].values():
        blocks[f"{each['namespace']}/{each['pool']}"].append(each)
    found: Section = {}
    for key, pool in digests["pools"].items():
        areas = [
            _area(pool, each) for each in sorted(blocks.get(key, ()), key=lambda each: sort_key(each["cidr"]))
        ]
        drawn = [each for each in areas if each is not None]
        used = sum(share(pool["cidr"], each["cidr"]) for each in drawn if not each["failed"])
        found[key] = {**pool, "blocks": drawn, "used": round(used, 6)}
    return found


def _area(pool: Json, block: Json) -> Json | None:
    place = area(pool["cidr"], block["cidr"])
    if place is None:
        return None
    return {**{name: block[name] for name in ("name", "cidr", "holder", "failed")}, "area": place}


def node_groups(digests: Digests) -> Section:
    """NodeGroups, counted."""
    return dict(digests["nodegroups"])


def events(digests: Digests) -> Section:
    """The newest events."""
    newest = sorted(digests["events"].items(), key=lambda item: str(item[1]["time"]), reverse=True)
    return dict(newest[:EVENTS])
