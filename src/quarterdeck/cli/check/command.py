"""`quarterdeck check`: what should hold in a cluster, and what does not."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.cli.argument import add_cluster_arguments
from quarterdeck.cli.error import CommandError

if TYPE_CHECKING:
    from quarterdeck.api import Resource
    from quarterdeck.api.invariant import Broken, Invariant
    from quarterdeck.client import Client
    from quarterdeck.health import Problem

ENTRY_POINTS: Final = "quarterdeck.invariants"
_PAGE: Final = 1000
_LOOKS: Final = 3
_STORAGE: Final = "storage"
_HEALTH: Final = "health"
DESCRIPTION = """\
Check the invariants and the health of a cluster, and say which objects are in trouble and what to do. Nothing
is written. An invariant that may be broken for a moment while controllers work is checked twice, and reported
only if it is still broken. Exits with 1 if an invariant is broken. Workloads in trouble break no invariant:
they are told, and only `check health` exits with 1 because of them.

`check storage` tests what the API server promises about its lists and watches, on every resource. It reads
everything three times, and runs only if you name it.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "check", help="check the invariants and the health of a cluster", description=DESCRIPTION
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only this invariant (ipam/no-overlap), or all of a group (ipam), or health, or storage",
    )
    parser.add_argument("--list", action="store_true", help="list the invariants")
    parser.add_argument(
        "--settle",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="seconds between the two checks of a broken invariant (default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="form of the output (default: text)"
    )
    add_cluster_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from quarterdeck.health import SITUATIONS

    from .storage import PROMISES, find_storage_faults

    tries_storage = _STORAGE in arguments.names
    names = [name for name in arguments.names if name not in (_STORAGE, _HEALTH)]
    asks_for_health = _HEALTH in arguments.names
    looks_at_health = asks_for_health or not arguments.names
    chosen = _chosen(names) if names or not arguments.names else []
    says = {each.name: each.says for each in chosen}
    if tries_storage or (arguments.list and not arguments.names):
        says |= PROMISES
    if asks_for_health or (arguments.list and not arguments.names):
        says |= {f"{_HEALTH}/{name}": f"not so: {each.meaning}" for name, each in SITUATIONS.items()}
    if arguments.list:
        width = max(map(len, says))
        for name, text in sorted(says.items()):
            print(f"{name:{width}}  {text}")
        return 0
    from quarterdeck.cli.health import assess_cluster
    from quarterdeck.client import Client, Config

    async def connected() -> tuple[list[Broken], list[Broken]]:
        config = Config.load(arguments.kubeconfig or "", context=arguments.context)
        async with Client.connect(config) as client:
            found = await find_broken(client, chosen, settle=arguments.settle)
            if tries_storage:
                found += await find_storage_faults(client)
            problems = (await assess_cluster(client)).problems if looks_at_health else ()
            failing = [each for each in problems if asks_for_health and each.severity != "notice"]
            told = [each for each in problems if each not in failing]
            return [*found, *map(_broken, failing)], [*map(_broken, told)]

    broken, notices = asyncio.run(connected())
    _print(broken, notices, len(says), arguments.output)
    return 1 if broken else 0


def _broken(problem: Problem) -> Broken:
    from quarterdeck.api.invariant import Broken

    name = f"{_HEALTH}/{problem.situation}"
    return Broken(name, problem.head, problem.reason, problem.remedy)


def _chosen(names: Sequence[str]) -> list[Invariant]:
    found = installed_invariants()
    for name in names:
        if not any(_is_meant(name, each) for each in found):
            known = ", ".join(sorted({each.name.partition("/")[0] for each in found}))
            raise CommandError(f"nothing is called {name}; there are {known}, and `check --list` names each")
    return [each for each in found if not names or any(_is_meant(name, each) for name in names)]


def _is_meant(name: str, invariant: Invariant) -> bool:
    return name in (invariant.name, invariant.name.partition("/")[0])


def installed_invariants() -> list[Invariant]:
    """Invariants of installed distributions, by name."""
    from importlib.metadata import entry_points

    found = [each for point in entry_points(group=ENTRY_POINTS) for each in point.load()]
    return sorted(found, key=lambda each: str(each.name))


async def find_broken(client: Client, chosen: Sequence[Invariant], *, settle: float) -> list[Broken]:
    """Everything that is broken, and stays so where it may be for a moment."""
    broken = await _look(client, chosen)
    for _ in range(_LOOKS - 1):
        doubtful = {each.name for each in chosen if each.at_rest} & {each.invariant for each in broken}
        if not doubtful:
            break
        await asyncio.sleep(settle)
        again = {*await _look(client, [each for each in chosen if each.name in doubtful])}
        broken = [each for each in broken if each.invariant not in doubtful or each in again]
    return sorted(broken)


async def _look(client: Client, chosen: Sequence[Invariant]) -> list[Broken]:
    from quarterdeck.api.invariant import Objects

    kinds = dict.fromkeys(kind for each in chosen for kind in each.kinds)
    objects = Objects({kind: await _all(client, kind) for kind in kinds})
    return [broken for each in chosen for broken in each.broken(objects)]


async def _all(client: Client, kind: type[Resource]) -> list[Resource]:
    from quarterdeck.errors import NoKindMatch, NotFound

    try:
        return [each async for page in client.pages(kind, limit=_PAGE) for each in page]
    except (NoKindMatch, NotFound):
        return []  # nothing of a kind that is not installed is broken


def _print(broken: Sequence[Broken], notices: Sequence[Broken], checked: int, output: str) -> None:
    if output == "json":
        from msgspec import json

        print(json.format(json.encode(broken), indent=2).decode())
        return
    for each in broken:
        print(f"{each.invariant}: {each.object} {each.problem}\n  to do: {each.remedy}")
    for each in notices:
        print(f"{each.invariant}: {each.object} {each.problem}\n  to do: {each.remedy}")
    bad = len({each.invariant for each in broken})
    print(f"{checked - bad} hold, {bad} broken", file=sys.stderr)
