"""The health of a cluster, read once: what `quarterdeck status` and `check` print."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from quarterdeck.client import Client
    from quarterdeck.health import Assessment, ObservedKind, Observer, Problem, Seen, Sight

_PAGE: Final = 1000
_AT_ONCE: Final = 4
"""Lists at the same time."""
_MOST: Final = 5
"""Objects of one problem that are named."""


async def assess_cluster(client: Client, *, now: datetime | None = None) -> Assessment:
    """What is wrong in a cluster; raises ``TransportError`` if it does not answer."""
    from quarterdeck.health import KINDS, Observer, assess

    limit = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        reading = {kind.name: group.create_task(_read(client, kind, limit)) for kind in KINDS}
    read = {name: task.result() for name, task in reading.items()}
    world = {name: seen for name, (seen, _) in read.items() if seen is not None}
    observer = Observer(sights={name: sight for name, (_, sight) in read.items()})
    return assess(world, observer, now or datetime.now(UTC))


async def _read(
    client: Client, kind: ObservedKind, limit: asyncio.Semaphore
) -> tuple[dict[str, Seen] | None, Sight]:
    import msgspec

    from quarterdeck.errors import ApiError, Forbidden, NoKindMatch, NotFound, Unauthorized
    from quarterdeck.health import Sight, see
    from quarterdeck.health.field import key_of

    try:
        async with limit:
            objects: list[Any] = [
                msgspec.json.decode(item)
                async for page in client.raw_pages(kind.kind, limit=_PAGE)
                for item in page.items
            ]
    except (NoKindMatch, NotFound):
        return None, Sight(state="absent")
    except Unauthorized as error:
        return None, Sight(state="unauthorized", message=str(error))
    except Forbidden as error:
        return None, Sight(state="refused", message=str(error))
    except ApiError as error:
        return None, Sight(state="stale", message=str(error))
    return {key_of(each): see(kind, each) for each in objects}, Sight()


def unreachable(server: str, since: datetime) -> Assessment:
    """What is to be said of a cluster that does not answer."""
    from quarterdeck.health import Observer, assess

    seen: Observer = Observer(server=server, unreachable_since=since.isoformat(timespec="seconds"))
    return assess({}, seen, since)


def problem_lines(problems: Iterable[Problem], now: datetime | None = None) -> list[str]:
    """Problems for people, the worst first, each with what to do."""
    from quarterdeck.health.field import age

    moment = now or datetime.now(UTC)
    lines = []
    for each in problems:
        since = f", for {age(each.since, moment)}" if age(each.since, moment) else ""
        lines.append(f"{each.severity}: {each.text}{since}")
        if len(each.subjects) > 1:
            named = ", ".join(map(str, each.subjects[:_MOST]))
            more = len(each.subjects) - _MOST
            lines.append(f"  {named}" + (f" and {more} more" if more > 0 else ""))
        lines.append(f"  to do: {each.remedy}")
    return lines
