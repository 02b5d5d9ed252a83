"""`quarterdeck convert`: manifests of one API version into another, offline, with the webhook's own code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quarterdeck.errors import ConfigError, reason_of

DESCRIPTION = """\
Convert NodeGroup manifests to another version, without a cluster and without losing anything: what the
target version cannot hold goes into the annotation node.deckhouse.io/conversion-data, from which converting
back restores it. Documents of other kinds are passed through. The result is written to standard output.
"""
EPILOG = """\
examples:
  quarterdeck convert -f old-manifest.yaml --to v1
  kubectl get nodegroups.v1.deckhouse.io -o yaml | quarterdeck convert -f - --to v1alpha1

docs: {docs}/operators/nodegroup/
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "convert",
        help="convert NodeGroup manifests between API versions, offline",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        action="append",
        required=True,
        metavar="FILE",
        help="YAML or JSON manifests; - reads standard input; may be repeated",
    )
    parser.add_argument(
        "--to", required=True, metavar="VERSION", help="v1, v1alpha2, v1alpha1, or deckhouse.io/..."
    )
    parser.add_argument(
        "--provider-config",
        type=Path,
        metavar="FILE",
        help="cloud-provider-cluster-configuration.yaml; groups it lists become CloudPermanent instead of "
        "CloudStatic when an old Hybrid group is converted to v1",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("yaml", "json"),
        default="yaml",
        help="form of the output (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from quarterdeck.errors import QuarterdeckError
    from quarterdeck.operators.nodegroup import names
    from quarterdeck.operators.nodegroup.logic.clusterstate import permanent_groups
    from quarterdeck.operators.nodegroup.logic.conversion import convert_with

    target = arguments.to if "/" in arguments.to else f"{names.GROUP}/{arguments.to}"
    if target not in names.VERSIONS:
        known = ", ".join(version.partition("/")[2] for version in names.VERSIONS)
        raise ConfigError(f"unknown version {arguments.to}: choose one of {known}")

    def listed() -> frozenset[str]:
        if arguments.provider_config is None:
            return frozenset()
        return permanent_groups(_content(str(arguments.provider_config)))

    results: list[Any] = []
    for file in arguments.files:
        for place, document in enumerate(_documents(file)):
            if not isinstance(document, dict) or document.get("kind") != names.KIND:
                results.append(document)
                continue
            try:
                results.append(convert_with(document, target, listed))
            except QuarterdeckError as error:
                raise ConfigError(f"{file}: document {place}: {error}") from error
    _write(results, arguments.output)
    return 0


def _documents(file: str) -> Iterable[Any]:
    """The documents of a file; the items of a list count as documents of their own."""
    import yaml

    from quarterdeck.api.manifest import load_documents

    try:
        documents = list(load_documents(_content(file)))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: not YAML: {reason_of(error)}") from error
    for document in documents:
        is_list = isinstance(document, dict) and str(document.get("kind", "")).endswith("List")
        if is_list and isinstance(document.get("items"), list):
            yield from document["items"]
        else:
            yield document


def _content(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error


def _write(documents: list[Any], form: str) -> None:
    import json

    import yaml

    if form == "json":
        whole = documents[0] if len(documents) == 1 else _list(documents)
        print(json.dumps(whole, indent=2))
    else:
        print(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True), end="")


def _list(documents: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": documents}
