"""The commands of a story, carried out without kubectl: what it would send, and what it would print.

Of kubectl this knows what stories need: `apply -f`, `patch -p`, `annotate`, `taint` and `get`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from quarterdeck.cli.error import CommandError

from .table import render_table

if TYPE_CHECKING:
    from quarterdeck.api import DynamicObject
    from quarterdeck.client import Client

_FIELD_MANAGER: Final = "kubectl"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_NAMESPACE: Final = "default"


class Kubectl:
    """Carries commands out; files are those of a folder."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client: Final = client
        self._folder: Final = folder

    async def run(self, command: str) -> str:
        """Carry a command out and return what it prints; raises CommandError for one it does not know."""
        words = shlex.split(command)
        if words[:1] != ["kubectl"]:
            raise CommandError(f"{command}: a story runs kubectl only")
        arguments = _parser(command).parse_intermixed_args(words[1:])
        lines = [line async for line in self._lines(arguments)]
        return "\n".join(lines)

    async def get(self, command: str) -> list[DynamicObject]:
        """The objects that `kubectl get` with these words shows."""
        arguments = _parser(command).parse_intermixed_args(["get", *shlex.split(command)])
        return [obj for name in arguments.resource.split(",") for obj in await self._objects(name, arguments)]

    async def _lines(self, arguments: argparse.Namespace) -> AsyncIterator[str]:
        match arguments.verb:
            case "apply":
                for document in load(self._folder / arguments.file):
                    yield f"{await self._apply(document)} serverside-applied"
            case "get":
                for name in arguments.resource.split(","):
                    yield await self._table(name, arguments)
            case "patch":
                arguments.name = arguments.rest[0]
                for obj in await self._objects(arguments.resource, arguments):
                    yield f"{await self._patch(obj, msgspec.json.decode(arguments.patch))} patched"
            case "annotate":
                values = dict(map(_annotation, arguments.rest))
                for obj in await self._objects(arguments.resource, arguments):
                    yield f"{await self._patch(obj, {'metadata': {'annotations': values}})} annotated"
            case "taint":
                for obj in await self._objects(arguments.resource, arguments):
                    taints = list(_tainted(obj.to_dict(), arguments.rest))
                    yield f"{await self._patch(obj, {'spec': {'taints': taints}})} tainted"

    async def _apply(self, document: Mapping[str, Any]) -> str:
        from quarterdeck.api import DynamicObject

        mapping = await self._client.mapper.mapping(DynamicObject(document).gvk)
        space = {"namespace": _NAMESPACE} if mapping.is_namespaced else {}
        whole = {**document, "metadata": {**space, **document["metadata"]}}
        made = await self._client.apply(DynamicObject(whole), field_manager=_FIELD_MANAGER, force=True)
        return _name(made)

    async def _patch(self, obj: DynamicObject, patch: Any) -> str:
        from quarterdeck.client import MergePatch

        return _name(await self._client.patch(obj, MergePatch(patch)))

    async def _objects(self, resource: str, arguments: argparse.Namespace) -> list[DynamicObject]:
        mapping = await self._client.mapper.find(resource)
        options: dict[str, Any] = {"labels": arguments.selector or None}
        fields = arguments.fields or (f"metadata.name={arguments.name}" if arguments.name else "")
        if fields:
            options["fields"] = fields
        if mapping.is_namespaced:
            options["namespace"] = _space(arguments)
        return list((await self._client.list(mapping.gvk, **options)).items)

    async def _table(self, resource: str, arguments: argparse.Namespace) -> str:
        mapping = await self._client.mapper.find(resource)
        gvk = mapping.gvk
        root = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.version}"
        space = f"/namespaces/{_space(arguments)}" if mapping.is_namespaced and _space(arguments) else ""
        query = {"labelSelector": arguments.selector, "fieldSelector": arguments.fields}
        answer = await self._client.rest.request(
            "GET",
            f"{root}{space}/{mapping.gvr.resource}",
            verb="raw",
            query=_query(query),
            headers=(("accept", _TABLE),),
        )
        columns = arguments.label_columns.split(",") if arguments.label_columns else []
        return render_table(msgspec.json.decode(answer.body), columns, wide=arguments.output == "wide")


class _Parser(argparse.ArgumentParser):
    command: str = ""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{self.command}: {message}")


def _parser(command: str) -> argparse.ArgumentParser:
    parser = _Parser(add_help=False)
    parser.command = command
    parser.add_argument("verb", choices=("apply", "get", "patch", "annotate", "taint"))
    parser.add_argument("resource", nargs="?", default="")
    parser.add_argument("rest", nargs="*")
    parser.add_argument("-f", dest="file", default="")
    parser.add_argument("-n", dest="namespace", default=_NAMESPACE)
    parser.add_argument("-A", dest="everywhere", action="store_true")
    parser.add_argument("-l", dest="selector", default="")
    parser.add_argument("-L", dest="label_columns", default="")
    parser.add_argument("-p", dest="patch", default="")
    parser.add_argument("-o", dest="output", choices=("wide",))
    parser.add_argument("--type", choices=("merge",))
    parser.add_argument("--server-side", action="store_true")
    parser.add_argument("--field-selector", dest="fields", default="")
    parser.set_defaults(name="")
    return parser


def load(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of a file of manifests; raises CommandError if there is none."""
    from quarterdeck.api.manifest import load_documents

    try:
        yield from load_documents(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _space(arguments: argparse.Namespace) -> str:
    return "" if arguments.everywhere else str(arguments.namespace)


def _query(values: Mapping[str, str]) -> str:
    from urllib.parse import urlencode

    return urlencode({name: value for name, value in values.items() if value})


def _name(obj: DynamicObject) -> str:
    group = f".{obj.gvk.group}" if obj.gvk.group else ""
    return f"{obj.gvk.kind.lower()}{group}/{obj.metadata.name}"


def _annotation(word: str) -> tuple[str, str | None]:
    """`key=value`, or `key-` which takes it away."""
    name, equals, value = word.partition("=")
    return (name, value) if equals else (name.removesuffix("-"), None)


def _tainted(node: Mapping[str, Any], words: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The taints of a node with those of `key=value:effect`."""
    yield from node.get("spec", {}).get("taints") or ()
    for word in words:
        pair, _, effect = word.partition(":")
        key, _, value = pair.partition("=")
        yield {"key": key, "value": value, "effect": effect}
