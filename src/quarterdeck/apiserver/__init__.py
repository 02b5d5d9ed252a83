"""An embedded Kubernetes API server: one process, SQLite, no etcd.

    async with ApiServer(ServerOptions()) as server:
        server.write_kubeconfig(Path("kubeconfig"))

See docs/apiserver.md for what it does and does not do.
"""

from .server import ApiServer, ServerOptions
from .storage import Durability, StorageError

__all__ = ["ApiServer", "Durability", "ServerOptions", "StorageError"]
