"""Waiting for things to be true, and saying what is not.

``eventually`` and ``consistently`` call a function again and again; it may be plain or ``async``, return
something true, or assert. ``run_until_idle`` waits for controllers to have nothing left to do. On virtual
time none of them takes wall time, and after ``run_until_idle`` everything that could happen has happened.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from quarterdeck.api import Resource, Writable, to_dict
from quarterdeck.errors import NotFound
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.testing.clock import VirtualLoop
from quarterdeck.testing.link import Link

T = TypeVar("T")
Probe: TypeAlias = Callable[[], object]
"""What is asked again and again; where the answer can be awaited, it is."""

_VIRTUAL_STEP: Final = 0.001
_REAL_STEP: Final = 0.02
_LONGEST_STEP: Final = 0.1
_QUIET_STEPS: Final = 2
"""Looks in a row at which nothing may be left to do on virtual time; between two of them all has happened."""
_QUIET_PERIOD: Final = 0.3
"""The same in real time, seconds: events may be on their way."""


@overload
async def eventually(
    probe: Callable[[], Awaitable[T | None]], *, timeout: float = 30.0, interval: float = 0.02
) -> T: ...
@overload
async def eventually(
    probe: Callable[[], T | None], *, timeout: float = 30.0, interval: float = 0.02
) -> T: ...
async def eventually(probe: Probe, *, timeout: float = 30.0, interval: float = 0.02) -> object:
    """Wait until ``probe`` returns something true, and return that.

    An ``AssertionError`` or ``NotFound`` means "not yet"; anything else it raises ends the wait. When time
    is up, the last assertion is raised, or an ``AssertionError`` with the last answer.
    """
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        answer, doubt = await _ask(probe)
        if doubt is None and answer:
            return answer
        if asyncio.get_running_loop().time() >= deadline:
            if isinstance(doubt, AssertionError):
                raise doubt
            raise AssertionError(f"not within {timeout:g} s: {_name(probe)} gave {doubt or answer!r}")
        await asyncio.sleep(interval)


async def consistently(probe: Probe, *, duration: float = 1.0, interval: float = 0.05) -> None:
    """Check that ``probe`` gives something true all the time; raises as it raises."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        answer, doubt = await _ask(probe)
        if isinstance(doubt, AssertionError):
            raise doubt
        if doubt is not None or not answer:
            age = f"{loop.time() - started:.3g} s of {duration:g}"
            raise AssertionError(f"not after {age}: {_name(probe)} gave {doubt or answer!r}")
        if loop.time() >= started + duration:
            return
        await asyncio.sleep(interval)


async def _ask(probe: Probe) -> tuple[object, Exception | None]:
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            return await answer, None
    except (AssertionError, NotFound) as error:
        return None, error
    return answer, None


def _name(probe: Probe) -> str:
    code = getattr(probe, "__code__", None)
    name = getattr(probe, "__qualname__", repr(probe))
    return f"{name} (line {code.co_firstlineno})" if code is not None else name


async def run_until_idle(*managers: Manager, horizon: float = 1.0, timeout: float = 600.0) -> None:
    """Let controllers work until nothing is left to do.

    That is: they have started, every watch is open and delivered, no key is queued, running, or parked for
    the cache, and none is due within ``horizon`` seconds (retries of failed keys come back soon; give 0 to
    ignore them). Raises ``AssertionError`` naming what is left after ``timeout``.
    """
    loop = asyncio.get_running_loop()
    is_virtual = isinstance(loop, VirtualLoop)
    shortest = step = _VIRTUAL_STEP if is_virtual else _REAL_STEP
    needed = _QUIET_STEPS if is_virtual else int(_QUIET_PERIOD / shortest)
    deadline, quiet = loop.time() + timeout, 0
    while True:
        # A virtual loop moves its clock only when nobody can run: behind this line everybody has.
        await asyncio.sleep(step)
        left = [text for manager in managers for text in what_is_left(manager, horizon=horizon)]
        quiet = 0 if left else quiet + 1
        step = min(step * 2, _LONGEST_STEP) if left else shortest
        if quiet >= needed:
            return
        if loop.time() > deadline:
            raise AssertionError(f"not idle after {timeout:g} s: {'; '.join(left)}")


def what_is_left(manager: Manager, *, horizon: float = 0.0) -> list[str]:
    """What a manager still has to do, in words; nothing when it is idle."""
    left = []
    if not manager.is_started or (manager.elector is None and not manager.is_leading):
        left.append("the manager has not started")
    statistics = manager.statistics()
    for cache in statistics.caches.values():
        for informer in cache.informers:
            if informer.health.is_blocked:
                continue
            name = str(informer.gvk.group_kind)
            if not informer.has_synced or not all(shard.is_watching for shard in informer.shards):
                left.append(f"{name} is not watched ({informer.health})")
            elif informer.queued or informer.handling:
                left.append(f"{name}: {informer.queued + informer.handling} changes to handle")
    for cluster in manager.clusters.values():
        transport = cluster.client.rest.transport
        if isinstance(transport, Link) and transport.pending:
            left.append(f"events on {transport.name} have not arrived")
    until = asyncio.get_running_loop().time() + horizon
    for controller in statistics.controllers:
        queue = controller.queue
        parked = controller.consistency.parked if controller.consistency is not None else 0
        soon = queue.next_due is not None and queue.next_due <= until
        if manager.is_leading and not controller.is_synced:
            left.append(f"controller {controller.name} is not synced")
        if queue.ready or queue.processing or controller.active or parked or soon:
            left.append(
                f"controller {controller.name}: {queue.ready} queued, {queue.processing} running, "
                f"{parked} parked{', one due soon' if soon else ''}"
            )
    return left


def assert_matches(obj: Writable | Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Assert that an object holds everything ``expected`` holds; more may be there.

    Names are those of the wire. Lists must be equally long; a callable in ``expected`` is asked instead of
    compared; ``None`` means absent or null.
    """
    found = obj if isinstance(obj, Mapping) else to_dict(obj)
    problems = differences(found, expected)
    assert not problems, "\n".join(problems)


def differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Where ``found`` does not hold what ``expected`` holds."""
    where = path.lstrip(".") or "the object"
    if callable(expected):
        return [] if expected(found) else [f"{where}: {found!r} is not accepted"]
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping):
            return [f"{where}: expected an object, found {found!r}"]
        return [
            problem
            for key, value in expected.items()
            for problem in differences(found.get(key), value, f"{path}.{key}")
        ]
    if isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            return [f"{where}: expected a list, found {found!r}"]
        if len(found) != len(expected):
            return [f"{where}: expected {len(expected)} elements, found {len(found)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [p for i, (have, want) in pairs for p in differences(have, want, f"{path}[{i}]")]
    return [] if found == expected else [f"{where}: expected {expected!r}, found {found!r}"]


def has_condition(obj: Resource, type: str, status: bool | str = True, reason: str = "") -> bool:
    """Whether an object's status has this condition."""
    wanted = status if isinstance(status, str) else str(status)
    for condition in to_dict(obj).get("status", {}).get("conditions", ()):
        if condition.get("type") == type:
            return bool(condition.get("status") == wanted and (not reason or condition["reason"] == reason))
    return False
