"""`quarterdeck demo`: a whole cluster, the operators' examples applied, and a view of what comes of them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.cli.error import CommandError
from quarterdeck.cli.examples import FOLDER
from quarterdeck.cli.localnode.settings import add_local_node_arguments, refuse_local_node_arguments
from quarterdeck.cli.nodes.option import add_node_arguments, node_settings
from quarterdeck.cli.operators import add_operator_arguments, chosen_operators, settings_of
from quarterdeck.cli.story.table import render_table

if TYPE_CHECKING:
    from quarterdeck.cli.story.script import Story
    from quarterdeck.client import Client

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PERIOD = 0.5
_SETTLED = 3
"""Looks without a change after which --once is content."""
_PATIENCE = 30.0
_STORY = "concert"
INTERRUPTED = 130
"""The exit code of what was ended by Ctrl-C before it was done."""
DESCRIPTION = """\
Start the embedded server with the operators, run the story in the folder `concert` step by step (if all the
operators that it needs are running), then apply the examples of each operator and show the result. Each
operator has a folder of examples with its name. The manifests in its subfolder `refused` are invalid; the
demo shows the error messages that they get.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "demo", help="run a cluster with the examples, and show what they do", description=DESCRIPTION
    )
    parser.add_argument("--once", action="store_true", help="show the result once, and exit")
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="FOLDER",
        help="with a subfolder for each operator (default: those that come with it)",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="add the context to this file (default: as kubectl's)"
    )
    parser.add_argument(
        "--local",
        action="store_true",
        help="the examples for a local node instead: pods run on this machine, and their logs are shown",
    )
    add_local_node_arguments(parser)
    add_operator_arguments(parser)
    add_node_arguments(parser, nodes=2, capacity="nvidia.com/gpu=8")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    from quarterdeck.apiserver.document import nesting
    from quarterdeck.runtime.log import configure

    configure(level="ERROR")
    nesting.make_room()
    if arguments.local:
        from quarterdeck.cli.demo.local import demo

        return uvloop.run(demo(arguments, arguments.examples or FOLDER))
    refuse_local_node_arguments(arguments, "--local")
    return uvloop.run(_demo(arguments))


async def _demo(arguments: argparse.Namespace) -> int:
    from quarterdeck.apiserver import ServerOptions
    from quarterdeck.apiserver.admission.plugin import FOR_CLUSTERS
    from quarterdeck.cli.apiserver import stop_signal
    from quarterdeck.cli.cluster import first_of, running_cluster
    from quarterdeck.cli.instance.announcement import announced
    from quarterdeck.cli.instance.kubeconfigfile import default_path
    from quarterdeck.cli.top import has_screen
    from quarterdeck.client import Client, InProcessTransport

    operators = chosen_operators(arguments)
    root = arguments.examples or FOLDER
    if not root.is_dir():
        raise CommandError(f"--examples {root} is no folder")
    stopping = stop_signal()
    settings, nodes = settings_of(arguments).operators, node_settings(arguments)
    names = [operator.name for operator in operators]
    story = _story(root, names)
    if story is not None:
        settings = {**story.settings, **settings}
    async with running_cluster(
        ServerOptions(admission_plugins=FOR_CLUSTERS),
        names,
        settings,
        stopping,
        nodes=nodes,
        log_level="ERROR",
        is_kept=False,
    ) as server:
        if stopping.is_set():  # by a signal during the start
            return INTERRUPTED

        async def show(lines: str) -> None:
            async with Client.over(InProcessTransport(server.local())) as client:
                if story is not None:
                    await _tell(client, root / _STORY, story, lines)
                head, paths = [lines], dict[str, str]()
                for operator in operators:
                    head += [line async for line in apply_all(client, root / operator.name, paths)]
                if has_screen() and not arguments.once:
                    await _screen(client, lines.splitlines()[0], stopping)
                else:
                    paths["nodes"] = "/api/v1/nodes"
                    await _show(server.local(), "\n".join(head), paths, stopping, once=arguments.once)

        path = arguments.kubeconfig or default_path()
        async with announced(server, name="", kubeconfig=path) as lines:
            await first_of(show(lines), stopping.wait())
    return INTERRUPTED if arguments.once and stopping.is_set() else 0


def _story(root: Path, operators: list[str]) -> Story | None:
    """The story among the examples, if these operators are enough for it."""
    from quarterdeck.cli.story.script import read_story

    if not (root / _STORY / "story.yaml").is_file():
        return None
    story = read_story(root / _STORY)
    return story if set(story.settings) <= set(operators) else None


async def _tell(client: Client, folder: Path, story: Story, head: str) -> None:
    from quarterdeck.cli.story.command import Kubectl
    from quarterdeck.cli.story.telling import Teller

    print(f"{head}\n\n{story.title}. The files are in {folder}.", flush=True)
    async for text in Teller(Kubectl(client, folder)).tell(story):
        print(text, flush=True)
    print("", flush=True)


def _manifests(folder: Path) -> Iterator[Json]:
    from quarterdeck.api.manifest import load_documents

    for path in sorted(folder.glob("*.yaml")):
        yield from load_documents(path.read_bytes())


async def apply_all(client: Client, folder: Path, paths: dict[str, str]) -> AsyncIterator[str]:
    """Apply an operator's examples; notes in `paths` where their lists are. Yields a line about each."""
    from quarterdeck.errors import ApiError

    for document in _manifests(folder):
        try:
            await _apply(client, document, paths)
        except ApiError as error:
            raise CommandError(f"{_name(document)}: {error}") from error
        yield f"applied {_name(document)}"
    for document in _manifests(folder / "refused"):
        try:
            await _apply(client, document, {})
        except ApiError as error:
            yield f"refused {_name(document)}: {error}"
        else:
            raise CommandError(f"{_name(document)} was to be refused, and was not")


async def _apply(client: Client, document: Json, paths: dict[str, str]) -> None:
    from quarterdeck.api import DynamicObject

    kind = DynamicObject(document).gvk
    mapping = await client.mapper.mapping(kind)
    metadata = document["metadata"]
    if mapping.is_namespaced:
        metadata = {"namespace": "default", **metadata}
    await client.apply(DynamicObject({**document, "metadata": metadata}), field_manager="demo", force=True)
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    if kind.kind != "Namespace":
        paths.setdefault(mapping.gvr.resource, f"{root}/{mapping.gvr.resource}")


def _name(document: Json) -> str:
    return f"{document['kind'].lower()}/{document['metadata']['name']}"


async def _screen(client: Client, head: str, stopping: asyncio.Event) -> None:
    from quarterdeck.cli.screen.screen import show
    from quarterdeck.dashboard import Board, installed_planner

    async with asyncio.TaskGroup() as group:
        board = Board(client, planner=installed_planner())
        following = group.create_task(board.run(), name="board")
        await show(board, head, stopping)
        following.cancel()


async def _show(local: Any, head: str, paths: dict[str, str], stopping: asyncio.Event, *, once: bool) -> None:
    """Show the lists as they change, until stopped; with `once` only when they have stopped changing."""
    shown, unchanged, looks = "", 0, 0
    while not stopping.is_set():
        view = "\n".join([await _list(local, title, path) for title, path in paths.items()])
        unchanged = unchanged + 1 if view == shown else 0
        looks += 1
        if view != shown and not once:
            print(f"{head}\n\n{view}\nCtrl-C stops it", flush=True)
        shown = view
        if once and (unchanged >= _SETTLED or looks * _PERIOD > _PATIENCE):
            print(f"{head}\n\n{view}", flush=True)
            return
        try:
            async with asyncio.timeout(_PERIOD):
                await stopping.wait()
        except TimeoutError:
            continue


async def _list(local: Any, title: str, path: str) -> str:
    _, _, body = await local.exchange("GET", path, "", (("Accept", _TABLE),), b"")
    return f"{title}\n{render_table(msgspec.json.decode(body))}"
