"""Where the API server and a node of this machine meet: a Unix socket in a folder of the user's alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["node_socket"]


def node_socket(folder: Path, node: str) -> Path:
    """The socket of a node. Its name is a digest: a node's own may be longer than the path of a socket."""
    return folder / f"{hashlib.sha256(node.encode()).hexdigest()[:16]}.sock"
