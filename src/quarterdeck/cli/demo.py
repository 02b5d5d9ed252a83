"""`quarterdeck demo`: a server, the examples applied, and a look at what came out."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from .error import CommandError

Json = dict[str, Any]
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
#: the kinds the view shows, in order: (title, list path)
_VIEWS = (
    ("gangs", "/apis/demo.quarterdeck.dev/v1/gangs"),
    ("pods", "/api/v1/namespaces/team-a/pods"),
    ("priority classes", "/apis/scheduling.k8s.io/v1/priorityclasses"),
)


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="the embedded server with the examples applied, and a view of them",
        description="Start the embedded server, apply the examples and show them.",
    )
    parser.add_argument("--once", action="store_true", help="show the view once and end")
    parser.add_argument("--examples", type=Path, help="folder with manifests (default: examples/first-steps)")
    parser.add_argument("--kubeconfig", type=Path, default=Path("kubeconfig"), help="default: %(default)s")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    import uvloop

    return uvloop.run(_demo(arguments))


async def _demo(arguments: argparse.Namespace) -> int:
    from quarterdeck.apiserver import ApiServer

    folder = arguments.examples or _examples()
    manifests = list(_manifests(folder))
    async with ApiServer() as server:
        kubeconfig: Path = arguments.kubeconfig
        server.write_kubeconfig(kubeconfig)
        print(f"the API server is up: {server.url}")
        print(f"talk to it:           kubectl --kubeconfig {kubeconfig} get gangs -A\n")
        local = server.local()
        for document in manifests:
            await _apply(local, document)
        await _refusal(local)
        print(await _view(local))
        if not arguments.once:
            print("Ctrl-C stops it")
            stopping = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stopping.set)
            await stopping.wait()
        await asyncio.to_thread(kubeconfig.unlink, missing_ok=True)
    return 0


def _examples() -> Path:
    for parent in (Path.cwd(), *Path(__file__).resolve().parents):
        if (parent / "examples" / "first-steps").is_dir():
            return parent / "examples" / "first-steps"
    raise CommandError("no examples/first-steps folder here; name one with --examples")


def _manifests(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document:
                yield document


async def _apply(local: Any, document: Json) -> None:
    """Server-side apply over the same code path a client's request takes."""
    path = await _path(local, document)
    status, _, body = await local.exchange(
        "PATCH",
        path,
        "fieldManager=demo",
        (("Content-Type", "application/apply-patch+yaml"),),
        msgspec.json.encode(document),
    )
    if status >= 300:
        raise CommandError(msgspec.json.decode(body)["message"])
    print(f"applied {document['kind'].lower()}/{document['metadata']['name']}")


async def _path(local: Any, document: Json) -> str:
    version = document["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    for _ in range(100):  # a definition is served a moment after it was stored
        status, _, body = await local.exchange("GET", root, "", (), b"")
        resources = msgspec.json.decode(body).get("resources", ()) if status == 200 else ()
        for resource in resources:
            if resource["kind"] == document["kind"] and "/" not in resource["name"]:
                namespace = document["metadata"].get("namespace", "default")
                scope = f"/namespaces/{namespace}" if resource["namespaced"] else ""
                return f"{root}{scope}/{resource['name']}/{document['metadata']['name']}"
        await asyncio.sleep(0.02)
    raise CommandError(f"no matches for kind {document['kind']!r} in version {version!r}")


async def _refusal(local: Any) -> None:
    """What a user gets who asks for the impossible."""
    gang = {
        "apiVersion": "demo.quarterdeck.dev/v1",
        "kind": "Gang",
        "metadata": {"name": "impossible"},
        "spec": {"replicas": 2, "minAvailable": 3},
    }
    path = "/apis/demo.quarterdeck.dev/v1/namespaces/team-a/gangs"
    status, _, body = await local.exchange("POST", path, "", (), msgspec.json.encode(gang))
    if status == 422:
        print(f"refused: {msgspec.json.decode(body)['message']}\n")


async def _view(local: Any) -> str:
    parts = []
    for title, path in _VIEWS:
        _, _, body = await local.exchange("GET", path, "", (("Accept", _TABLE),), b"")
        parts.append(f"{title}\n{render_table(msgspec.json.decode(body))}")
    return "\n".join(parts)


def render_table(table: Json) -> str:
    """A Table in columns, as kubectl prints it."""
    columns = [
        (index, column["name"].upper())
        for index, column in enumerate(table["columnDefinitions"])
        if not column.get("priority")
    ]
    rows = [[name for _, name in columns]]
    for row in table["rows"]:
        rows.append([_cell(row["cells"][index]) for index, _ in columns])
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(f"  {line}" for line in lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "<none>"
    return str(value).lower() if isinstance(value, bool) else str(value)
