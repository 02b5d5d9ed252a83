"""Where the Go programs are that ours are compared with."""

from __future__ import annotations

import os
from pathlib import Path


def find_peer(name: str) -> Path | None:
    """A program that tools/kube/peers/build.sh built; ``None`` where there is no Go."""
    base = os.environ.get("QUARTERDECK_CACHE") or Path.home() / ".cache" / "quarterdeck"
    program = Path(base, "kube", "v1.36.3", "peers", name)
    return program if program.exists() else None
