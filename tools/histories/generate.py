"""A history from a seed: pure, the same every time.

A history is a list of steps, plain JSON, so that it can be kept and cut. A step has a number `i` that stays
when others are taken out. Texts may hold `$u` (the history's name on a server) and `${i.rv}`, `${i.uid}`,
`${i.continue}`: what step i was answered. A body `{"$from": i, "$merge": {...}}` is the object that step i
was answered, changed. A step whose references say nothing is left out when it is told.

Operations: `request`; `settle`, a request that is repeated until the answer has the code, the text in `seen`
and not the one in `unseen`; `watch` opens a stream, `read` writes an object into the watched collection and
reads the stream up to it, `ended` reads a stream that must end by itself; `restart` is `TERM` or `KILL`;
`compact` forgets what was before, and a restart follows; `clock` waits until another second begins; `calls`
are those that webhooks have received.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from . import reading, ruling, writing
from .author import NAMESPACES, Author
from .reading import Pages, Watches
from .ruling import Definitions, Host, Rules

Step = dict[str, Any]
#: with a part of the histories only: the real server takes seconds to start
_RESTARTED: Final = 0.08
#: these wait for seconds to pass
_TIMED: Final = 0.15


def has_restart(steps: list[Step]) -> bool:
    """Whether nothing else can be told to the same server at the same time."""
    return any(step["op"] in ("restart", "compact") for step in steps)


def history(seed: int, *, restarts: bool | None = None) -> list[Step]:
    """The steps of one seed. restarts: by default some seeds have one."""
    random = Random(f"history {seed}")
    has_restarts = random.random() < _RESTARTED if restarts is None else restarts
    is_timed = random.random() < _TIMED
    length = random.randint(40, 120 if random.random() < 0.8 else 200)
    author = Author(random)
    watches, pages, rules = Watches(), Pages(), Rules()
    definitions, host = Definitions(watches), Host(watches)
    deeds: list[tuple[Callable[[Author], None], float]] = [
        (writing.create, 14),
        (writing.update, 12),
        (writing.patch, 26),
        (writing.delete, 8),
        (writing.delete_collection, 2),
        (reading.get, 4),
        (reading.list_objects, 10),
        (pages.page, 4),
        (watches.watch, 6),
        (watches.resume, 2),
        (watches.read_some, 4),
        (watches.expire, 1 if is_timed else 0),
        (definitions.edit, 5),
        (definitions.remove, 1),
        (rules.change_policy, 2),
        (rules.change_hook, 2),
        (rules.change_access, 2),
        (rules.change_quota, 1),
        (rules.read_quota, 1),
        (ruling.end_namespace, 0.7),
        (host.restart, 10 if has_restarts else 0),
        (host.pass_time, 3 if is_timed else 0),
    ]
    for namespace in NAMESPACES:
        ruling.create_namespace(author, namespace)
    if random.random() < 0.7:
        definitions.define(author)
    tasks, weights = zip(*((partial(deed, author), weight) for deed, weight in deeds), strict=True)
    while len(author.steps) < length:
        random.choices(tasks, weights)[0]()
    for watch in list(author.watches):
        watches.read(author, watch, closes=True)
    author.add("calls")
    return author.steps
