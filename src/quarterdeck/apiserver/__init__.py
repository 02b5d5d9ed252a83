"""An embedded Kubernetes API server: one process, SQLite, no etcd.

    async with ApiServer(ServerOptions()) as server:
        server.write_kubeconfig(Path("kubeconfig"))

See docs/apiserver.md for what it does and does not do.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import ApiServer, ServerOptions
    from .storage import Durability, StorageError, salvage

__all__ = ["ApiServer", "Durability", "ServerOptions", "StorageError", "salvage"]

_HOMES = {
    "ApiServer": "server",
    "ServerOptions": "server",
    "Durability": "storage",
    "StorageError": "storage",
    "salvage": "storage",
}


def __getattr__(name: str) -> Any:
    # imported on first use: parts of this package serve without the whole server (offline conversion)
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
