"""What can be wrong with gangs of the gang scheduler, their queues and bindings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, gpus, items, number, of
from .problem import Finding

_WAIT: Final = 5.0
_TOPOLOGY: Final = re.compile(r"requirement (\S+) couldn't be satisfied")
_NAMES: Final = re.compile(r" for (?:job|podgroup|pod group) <[^>]*>| <[^>]*>")
_RESOURCES: Final = (("gpu", "GPUs", 1.0), ("cpu", "CPU", 1e-3), ("memory", "memory", 1e6))
"""Fields of a queue, what they are called, and their unit in that of the resource."""


def examine_pod_group(obj: Json) -> Iterator[Finding]:
    """Why a gang waits, in the order of how much that tells."""
    queue = str(of(obj, "spec").get("queue") or "")
    gang = Examined("PodGroup", obj, queue=queue)
    for condition in items(gang.status, "schedulingConditions"):
        if condition.get("status") == "False":
            continue
        since = str(condition.get("lastTransitionTime") or "")
        for each in items(condition, "reasons") or [condition]:
            reason, message = str(each.get("reason") or ""), str(each.get("message") or "")
            limiting = str(of(of(each, "details"), "queueDetails").get("name") or queue)
            if reason == "QueueDoesNotExist":
                text = f"queue {queue} does not exist"
                yield gang.found("queue-missing", text, since=since, about=queue)
            elif reason == "OverLimit":
                text = f"queue {limiting} is at its limit"
                yield gang.found("gang-over-limit", text, since=since, after=_WAIT, about=limiting)
            elif reason == "NonPreemptibleOverQuota":
                text = f"queue {limiting} has no quota left for gangs that may not be evicted"
                yield gang.found("gang-over-quota", text, since=since, after=_WAIT, about=limiting)
            else:
                text = _plain(message) or "the scheduler has no place for it"
                yield gang.found("gang-waits", text, since=since, after=_WAIT)


def _plain(message: str) -> str:
    """What a scheduler says, without the names of its own objects: the same trouble has the same words."""
    line = message.strip().partition("\n")[0].strip(" .")
    if match := _TOPOLOGY.search(line):
        return f"no {match[1].rpartition('/')[2]} has room for all of it"
    return _NAMES.sub("", line)


def minimum_of(obj: Json) -> int:
    """How many pods a gang needs, where one number says so; 0 where its subgroups do."""
    spec = of(obj, "spec")
    return 0 if items(spec, "subGroups") else int(spec.get("minMember") or 1)


def examine_queue(obj: Json) -> Iterator[Finding]:
    """A queue that has all it may have while more is asked for."""
    queue = Examined("Queue", obj, queue=str(of(obj, "metadata").get("name") or ""))
    shares = of(queue.spec, "resources")
    has, wants = of(queue.status, "allocated"), of(queue.status, "requested")
    for field, title, unit in _RESOURCES:
        limit = number(of(shares, field).get("limit")) if of(shares, field).get("limit") is not None else -1.0
        if limit < 0:
            continue
        given = gpus(has) if field == "gpu" else number(has.get(field))
        asked = gpus(wants) if field == "gpu" else number(wants.get(field))
        if asked > given and given >= limit * unit > 0:
            yield queue.found(
                "queue-at-limit", f"it has all the {title} it may have, and more is asked for", is_dated=False
            )


def examine_bind_request(obj: Json) -> Iterator[Finding]:
    """A binding that failed."""
    request = Examined("BindRequest", obj)
    if request.status.get("phase") == "Failed":
        yield request.found(
            "bind-request-failed", str(request.status.get("reason") or "it failed"), is_dated=False
        )
