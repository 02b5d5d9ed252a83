"""A cluster for synchronous code: tests with the official client, or with none of ours.

with served_kubeconfig(crds=["deploy/crds.yaml"]) as path:
    kubernetes.config.load_kube_config(str(path))
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quarterdeck.testing.cluster import TestCluster


@contextmanager
def served_kubeconfig(**options: Any) -> Iterator[Path]:
    """The kubeconfig of a fresh cluster that runs in a thread; ``options`` are those of ``TestCluster``."""
    ready: Future[asyncio.AbstractEventLoop] = Future()
    stopping = asyncio.Event()

    async def serve(path: Path) -> None:
        async with TestCluster(**{**options, "listen": True}) as cluster:
            cluster.write_kubeconfig(path)
            ready.set_result(asyncio.get_running_loop())
            await stopping.wait()

    def run(path: Path) -> None:
        try:
            asyncio.run(serve(path))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    with TemporaryDirectory(prefix="quarterdeck-") as folder:
        path = Path(folder, "kubeconfig")
        thread = threading.Thread(target=run, args=(path,), name="cluster")
        thread.start()
        try:
            loop = ready.result()
            yield path
            loop.call_soon_threadsafe(stopping.set)
        except BaseException:
            if not ready.exception():
                ready.result().call_soon_threadsafe(stopping.set)
            raise
        finally:
            thread.join()
