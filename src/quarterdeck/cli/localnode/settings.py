"""How this machine becomes a node: arguments, the ``node`` part of the configuration file, places.

node:
  writable: false          # whether pods may write to the machine's files as you may
  images:
    - pattern: "docker.io/library/python:*"
      command: [python3]
  oci_runtime: runc        # by name or path; otherwise crun, or runc
  eviction:                # what must be left, or pods are ended; names as in a kubelet's evictionHard
    memory.available: 100Mi
  pressure_seconds: 300    # how long the node says so afterwards
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.instance.instance import directory, is_at
from quarterdeck.errors import reason_of

if TYPE_CHECKING:
    from quarterdeck.cluster.agent.process.image import ImageRule

ENTRY_POINTS: Final = "quarterdeck.images"
_ROOT: Final = (
    "pods would run as root; start it as another user, or say --allow-root if that is what you want"
)


class _NodeConfig(msgspec.Struct, forbid_unknown_fields=True):
    images: list[dict[str, Any]] = []
    writable: bool = False
    oci_runtime: str = ""
    eviction: dict[str, str] = {}
    pressure_seconds: float = 300.0


class LocalNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was asked for."""

    name: str
    images: tuple[ImageRule, ...] = ()
    is_writable: bool = False
    taint: bool = False
    runtime: str = "process"
    oci_runtime: str = ""
    eviction: dict[str, str] = {}
    pressure_seconds: float = 300.0


def add_local_node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-root", action="store_true", help="run pods although you are root; they then run as root, too"
    )
    parser.add_argument(
        "--taint-local-node",
        action="store_true",
        help="give the node the taint quarterdeck.dev/local:NoSchedule",
    )
    parser.add_argument(
        "--runtime",
        choices=("process", "oci"),
        default="process",
        help="how pods without a RuntimeClass run (default: process); oci needs root, and crun or runc",
    )
    parser.add_argument(
        "--node-name", default="", help="name of this machine as a node (default: its host name)"
    )


def refuse_local_node_arguments(arguments: argparse.Namespace, wanted: str) -> None:
    """Refuse what is about a local node where none is asked for by the option ``wanted``."""
    for option, is_given in (
        ("--allow-root", arguments.allow_root),
        ("--taint-local-node", arguments.taint_local_node),
        ("--runtime", arguments.runtime != "process"),
        ("--node-name", arguments.node_name),
    ):
        if is_given:
            raise CommandError(f"{option} has no effect without {wanted}")


def local_node(arguments: argparse.Namespace, config: object = None) -> LocalNode:
    """The node that the arguments ask for; raises CommandError for what cannot be."""
    from quarterdeck.cluster.agent.oci.runtime import missing_parts
    from quarterdeck.cluster.agent.process.image import ImageRule

    if os.geteuid() == 0 and not arguments.allow_root:
        raise CommandError(_ROOT)
    try:
        settings = msgspec.convert(config or {}, _NodeConfig)
        images = msgspec.convert(settings.images, tuple[ImageRule, ...])
    except msgspec.ValidationError as error:
        raise CommandError(f"node: {reason_of(error)}") from error
    if arguments.runtime == "oci" and (why := missing_parts(settings.oci_runtime)):
        raise CommandError(f"--runtime oci: {why}")
    name = arguments.node_name or socket.gethostname().lower().replace("_", "-").strip("-.") or "local"
    return LocalNode(
        name=name,
        eviction=_thresholds(settings.eviction),
        pressure_seconds=settings.pressure_seconds,
        images=(*images, *_installed_images()),
        is_writable=settings.writable,
        taint=arguments.taint_local_node,
        runtime=arguments.runtime,
        oci_runtime=settings.oci_runtime,
    )


def _thresholds(wanted: dict[str, str]) -> dict[str, str]:
    """What must be left of what, with the usual for what is not said."""
    from quarterdeck.cluster.agent.machine.eviction import DEFAULT_THRESHOLDS, SIGNALS, is_threshold

    for signal, text in wanted.items():
        if signal not in SIGNALS:
            raise CommandError(f"node: eviction: {signal} is not one of {', '.join(SIGNALS)}")
        if not is_threshold(text):
            raise CommandError(
                f'node: eviction: {signal}: {text!r} is neither a quantity ("100Mi") nor a share ("5%")'
            )
    return {**DEFAULT_THRESHOLDS, **wanted}


def _installed_images() -> list[ImageRule]:
    """What images mean that installed distributions know: modules to run with this interpreter."""
    from importlib.metadata import entry_points

    from quarterdeck.cluster.agent.process.image import ImageRule

    return [
        ImageRule(pattern=f"*{point.name}*", command=(sys.executable, "-m", point.value))
        for point in entry_points(group=ENTRY_POINTS)
    ]


@contextmanager
def held_directory(wanted: Path | None) -> Iterator[Path]:
    """A folder for a node's pods that nobody else uses: the one given, or one of the user's.

    What a cluster that was killed left in it is found there by the next one, and ended. Blocking.
    """
    candidates = (
        [wanted.absolute()]
        if wanted is not None
        else [directory() / "nodes" / str(number) for number in range(100)]
    )
    for path in candidates:
        lock = _lock(path)
        if lock is None:
            continue
        try:
            yield path
        finally:
            if wanted is None and [each.name for each in path.iterdir()] == ["lock"]:
                shutil.rmtree(path)  # nothing of a pod is left in it
                with suppress(OSError):
                    path.parent.rmdir()
                    path.parent.parent.rmdir()
            os.close(lock)
        return
    raise CommandError(f"{candidates[0]} is in use by another node")


def _lock(folder: Path) -> int | None:
    """Hold a folder; None if somebody else does, or just now removed it."""
    with suppress(FileNotFoundError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(lock, folder / "lock"):
                return lock
        os.close(lock)
    return None
