"""Processes that are measured: where the Go ones are, and how the Python ones are started."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quarterdeck.api.k8s import KUBERNETES_VERSION


def _built(*path: str) -> Path | None:
    base = os.environ.get("QUARTERDECK_CACHE") or Path.home() / ".cache" / "quarterdeck"
    program = Path(base, "kube", KUBERNETES_VERSION, *path)
    return program if program.exists() else None


def find_peer(name: str) -> Path | None:
    """A program that tools/kube/peers/build.sh built; ``None`` where there is no Go."""
    return _built("peers", name)


def has_real_server() -> bool:
    """Whether tools/kube/build.sh has built kube-apiserver."""
    return _built("kube-apiserver") is not None


@contextmanager
def compiled(*modules: str) -> Iterator[dict[str, str]]:
    """The environment of a Python process that finds its bytecode, as an installed program does.

    The modules are imported once to compile them and what they need, whether or not this checkout may
    keep bytecode.
    """
    with tempfile.TemporaryDirectory(prefix="quarterdeck-bench-") as directory:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": directory}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", f"import {', '.join(modules)}"]
        subprocess.run(command, env=environment, check=True)
        yield environment
