"""`quarterdeck image`: images from files, for pods that run by the runtime ``oci``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .error import CommandError

if TYPE_CHECKING:
    from quarterdeck.cluster.image.document import Platform
    from quarterdeck.cluster.image.store import ImageStore

DESCRIPTION = """\
Images that pods of the local node can run with the runtime oci. They come from files only: an OCI layout (a
folder or an archive), or what `docker save` and `podman save` write. Nothing is pulled.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "image", help="images for the local node: import, list, remove", description=DESCRIPTION
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    take = actions.add_parser("import", help="import the images of a file", description="Import images.")
    take.add_argument("file", type=Path, help="an OCI layout (folder or tar), or an archive of docker save")
    take.add_argument(
        "--name",
        action="append",
        default=[],
        help="name of the image, instead of the one in the file (may be repeated)",
    )
    take.add_argument(
        "--platform", default="", metavar="OS/ARCH", help="platform to import (default: this machine's)"
    )
    show = actions.add_parser("list", help="list the images", description="List images.")
    remove = actions.add_parser(
        "remove", help="remove an image, or one of its names", description="Remove images."
    )
    remove.add_argument("images", nargs="+", metavar="IMAGE", help="a name, or an id from the list")
    for action, act in ((take, _import), (show, _list), (remove, _remove)):
        action.add_argument(
            "--store",
            type=Path,
            metavar="FOLDER",
            help="folder of the images (default: ~/.local/share/quarterdeck/images)",
        )
        action.set_defaults(run=_run, act=act)


def _run(arguments: argparse.Namespace) -> int:
    from quarterdeck.cluster.image.store import ImageStore, default_store

    arguments.act(ImageStore(arguments.store or default_store()), arguments)
    return 0


def _import(store: ImageStore, arguments: argparse.Namespace) -> None:
    for image in store.import_file(arguments.file, _platform(arguments.platform), arguments.name):
        names = ", ".join(image.names) or "without a name (give it one with --name)"
        print(f"imported {image.id.removeprefix('sha256:')[:12]} {names}")


def _platform(text: str) -> Platform:
    from quarterdeck.cluster.image.document import Platform, this_platform

    if not text:
        return this_platform()
    parts = text.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise CommandError(f"--platform {text!r} is not of the form os/architecture, such as linux/arm64")
    return Platform(*parts)


def _list(store: ImageStore, arguments: argparse.Namespace) -> None:
    rows = [("NAME", "ID", "PLATFORM", "SIZE", "IMPORTED")]
    for image in store.images():
        imported = time.strftime("%Y-%m-%d %H:%M", time.localtime(image.imported))
        short = image.id.removeprefix("sha256:")[:12]
        for name in image.names or ("<none>",):
            rows.append((name, short, image.platform, f"{image.size / 1e6:.1f} MB", imported))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _remove(store: ImageStore, arguments: argparse.Namespace) -> None:
    for wanted in arguments.images:
        image = store.remove(wanted)
        print(f"removed {wanted} ({image.id.removeprefix('sha256:')[:12]})")
