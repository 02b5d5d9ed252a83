"""What the views of the terminal list: an item for each problem, node, gang, queue, job and event.

An item has lines to show and more to explain. Pure but for the ages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from quarterdeck.dashboard.text import age, gang_name, natural, queue_tree
from quarterdeck.health.field import plural

Json = dict[str, Any]
Sections = Mapping[str, Mapping[str, Json]]
Line = tuple[tuple[str, str], ...]
"""Pieces of text, each with its style."""
SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "notice": "dim"}
_SIGNS: Final = {"critical": "!!", "warning": "! ", "notice": "· "}
STATES: Final = {
    "running": "green",
    "waiting": "yellow",
    "partly": "yellow",
    "not ready": "red",
    "failing": "red",
    "failed": "red",
}
_SHOWN: Final = 12
_COLOURS: Final = (
    "bright_blue",
    "bright_green",
    "bright_magenta",
    "bright_yellow",
    "bright_cyan",
    "dodger_blue1",
    "spring_green3",
    "orange1",
    "medium_purple1",
    "deep_pink2",
    "turquoise2",
    "gold1",
    "chartreuse3",
)


class Item(NamedTuple):
    """One thing of a list."""

    key: str
    lines: tuple[Line, ...]
    detail: tuple[str, ...] = ()
    """What Enter shows."""
    gang: str = ""
    """The gang that the scheduler can be asked about."""

    @property
    def text(self) -> str:
        """All of it, to be searched."""
        return "\n".join("".join(piece for piece, _ in line) for line in self.lines) + self.key


def colour(gang: str) -> str:
    """The colour of a gang: by its name alone, so it has it for ever."""
    value = 2166136261
    for letter in gang_name(gang).encode():
        value = (value ^ letter) * 16777619 % 2**32
    return _COLOURS[(value >> 8) % len(_COLOURS)]


def problems(sections: Sections, order: str = "") -> list[Item]:
    """What is wrong, the worst first."""
    rows = sorted(sections.get("problems", {}).items(), key=lambda item: int(item[1]["place"]))
    if order == "age":
        rows.sort(key=lambda item: str(item[1]["since"] or "9"))
    return [_problem(key, row) for key, row in rows]


def _problem(key: str, row: Json) -> Item:
    style = SEVERITY[row["severity"]]
    since = age(row["since"])
    line = (
        (_SIGNS[row["severity"]], style),
        (f" {row['head']}", "bold"),
        (f": {row['reason']}", ""),
        (f"  {since}" if since else "", "dim"),
    )
    subjects = [f"  {_subject(each)}" for each in row["subjects"][:_SHOWN]]
    if row["count"] > _SHOWN:
        subjects.append(f"  and {row['count'] - _SHOWN} more")
    gangs = [each for each in row["subjects"] if each["kind"] == "PodGroup"]
    return Item(
        key,
        (line,),
        (
            f"{row['severity']}: {row['reason']}",
            f"since: {since + ' ago' if since else 'not known'}",
            f"to do: {row['remedy']}",
            "",
            *subjects,
        ),
        f"{gangs[0]['namespace']}/{gangs[0]['name']}" if gangs else "",
    )


def _subject(subject: Json) -> str:
    place = f"{subject['namespace']}/{subject['name']}" if subject["namespace"] else subject["name"]
    return f"{subject['kind']} {place}" + (f" ({subject['detail']})" if subject["detail"] else "")


def _nodes(sections: Sections, order: str) -> list[Item]:
    nodes = sorted(
        sections.get("nodes", {}).values(), key=lambda node: (not node["gpus"], natural(node["name"]))
    )
    if order == "free GPUs":
        nodes.sort(key=lambda node: sum(guest["gpus"] for guest in node["guests"]) - node["gpus"])
    width = min(32, max((len(node["name"]) for node in nodes), default=0))
    return [_node(node, width) for node in nodes]


def _node(node: Json, width: int) -> Item:
    used = sum(guest["gpus"] for guest in node["guests"])
    state = "" if node["ready"] else "not ready"
    line = (
        (f"{shortened(node['name'], width):<{width}} ", "" if node["ready"] else "red"),
        *gpu_bar(node),
        (f"  {used:g} of {node['gpus']}", "dim"),
        (f"  {state}" if state else "", "bold red"),
        ("  cordoned" if node.get("cordoned") else "", "yellow"),
    )
    guests = [f"  {each['pod']}  {plural(each['gpus'], 'GPU')}  {each['gang']}" for each in node["guests"]]
    head = f"node {node['name']}: {state or 'ready'}, {used:g} of {plural(node['gpus'], 'GPU')}"
    return Item(node["name"], (line,), (head, plural(node["pods"], "pod"), "", *guests))


def shortened(name: str, width: int) -> str:
    """A name in so many letters; what tells it apart is at its end, so the middle is left out."""
    if len(name) <= width:
        return name
    tail = (width - 1) * 2 // 3
    return f"{name[: width - 1 - tail]}…{name[-tail:]}" if tail else name[:width]


def gpu_bar(node: Json, most: int = 16) -> Line:
    """A sign for each GPU, in the colour of the gang that has it; where there are many, one for several."""
    pieces: list[tuple[str, str]] = []
    scale = min(1.0, most / node["gpus"]) if node["gpus"] else 1.0
    size, shown = round(node["gpus"] * scale), 0
    for guest in node["guests"]:
        blocks = min(max(1, round(guest["gpus"] * scale)), size - shown)
        pieces.append(("■" * blocks, colour(guest["gang"])))
        shown += blocks
    return (*pieces, ("·" * (size - shown), "dim"))


def _waiting(sections: Sections, order: str) -> list[Item]:
    field = "name" if order == "name" else "since"
    found = sorted(sections.get("gangs", {}).items(), key=lambda item: str(item[1][field]))
    return [_gang(key, gang) for key, gang in found if gang["waiting"]]


def _gang(key: str, gang: Json) -> Item:
    head: Line = (
        (gang_name(gang["name"]), "bold yellow"),
        (f"  {gang['waiting']} of {plural(gang['pods'], 'pod')} wait, {age(gang['since'])}", "dim"),
    )
    whys: list[Line] = [((f"  {why.strip().splitlines()[0]}", ""),) for why in gang["why"][:2] if why.strip()]
    detail = (
        f"gang {key}: {gang['state']}",
        f"{gang['placed']} of {plural(gang['pods'], 'pod')} placed, queue {gang.get('queue') or 'none'}",
        "",
        *(f"  {line}" for why in gang["why"] for line in why.strip().splitlines()),
    )
    return Item(key, (head, *whys), detail, key if gang.get("grouped") else "")


def _queues(sections: Sections, order: str) -> list[Item]:
    queues = queue_tree(sections.get("queues", {}), by_use=order == "GPUs in use")
    width = max((len(each["title"]) + 2 * each["depth"] for each in queues), default=0)
    return [_queue(each, min(40, width)) for each in queues]


def _queue(queue: Json, width: int) -> Item:
    share, fair = queue["gpu"], queue["fairShare"]
    quota = "no bound" if share["quota"] < 0 else f"{share['quota']:g}"
    over = 0 <= share["quota"] < share["allocated"]
    title = shortened("  " * queue["depth"] + queue["title"], width)
    line = (
        (f"{title:<{width}}  ", ""),
        (f"{share['allocated']:>5g}", "bold"),
        (f" of {quota}", "dim"),
        ("" if fair is None else f", fair {fair:g}", "dim"),
        ("  over quota" if over else "", "yellow"),
    )
    detail = [f"queue {queue['name']}" + (f", below {queue['parent']}" if queue.get("parent") else "")]
    for name in ("gpu", "cpu", "memory"):
        each = queue.get(name)
        if each and "limit" in each:
            bounds = ", ".join(f"{field} {_bound(each[field])}" for field in ("quota", "limit"))
            detail.append(f"  {name}: has {each['allocated']:g}, wants {each['requested']:g}, {bounds}")
    return Item(queue["name"], (line,), tuple(detail))


def _bound(value: float) -> str:
    return "no bound" if value < 0 else f"{value:g}"


def _work(sections: Sections, order: str) -> list[Item]:
    trainings = sorted(sections.get("trainings", {}).items(), key=lambda item: natural(item[0]))
    if order == "state":
        trainings.sort(key=lambda item: str(item[1]["state"]))
    found = [_training(key, job) for key, job in trainings]
    services = sorted(sections.get("inference", {}).items(), key=lambda item: natural(item[0]))
    return found + [_service(key, each) for key, each in services]


def _training(key: str, job: Json) -> Item:
    progress = "" if job["progress"] is None else f"  {job['progress']} %"
    line = ((f"{key}  ", ""), (job["state"].lower(), STATES.get(job["state"].lower(), "")), (progress, ""))
    pods = [f"  {pod['name']}  {pod['phase']}  {pod['node']}" for pod in job.get("pods", ())]
    return Item(key, (line,), (f"training {key}: {job['state']}", job.get("message") or "", "", *pods))


def _service(key: str, service: Json) -> Item:
    has, wanted = service["available"], service["replicas"]
    style = "green" if has >= wanted else "yellow" if has else "red"
    order = " → ".join("+".join(stage) for stage in service["stages"])
    line = (
        (f"{key}  ", ""),
        (f"{has} of {plural(wanted, 'replica')} available", style),
        (f"  {order}", "dim"),
    )
    roles = [
        f"  {each['name']}  {each['ready']} of {each['replicas']} ready"
        for each in service.get("cliques", ())
    ]
    return Item(key, (line,), (f"inference service {key}", "", *roles))


def _events(sections: Sections, order: str) -> list[Item]:
    newest = sorted(sections.get("events", {}).items(), key=lambda item: str(item[1]["time"]), reverse=True)
    if order == "object":
        newest.sort(key=lambda item: str(item[1]["about"]))
    return [_event(key, each) for key, each in newest]


def _event(key: str, event: Json) -> Item:
    style = "yellow" if event["type"] == "Warning" else "dim"
    line = (
        (f"{age(event['time']):>4} ", style),
        (f"{event['reason']} {event['about']}: {event['message']}", ""),
    )
    kind = event.get("kind", "")
    return Item(
        key, (line,), (f"{event['type']} {event['reason']}", f"{kind} {event['about']}", event["message"])
    )


ITEMS: Final[tuple[Callable[[Sections, str], list[Item]], ...]] = (
    problems,
    problems,
    _nodes,
    _waiting,
    _queues,
    _work,
    _events,
)
"""What each view lists, in their order; the overview lets problems be chosen."""
