"""What a cluster tells others while it runs: its context in a kubeconfig, its entry among those that run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.cluster.agent.shim.order import start_of

from .instance import Instance, first_in, forget, left_behind, register
from .kubeconfigfile import ContextInFile, text_of

if TYPE_CHECKING:
    from quarterdeck.apiserver import ApiServer


@asynccontextmanager
async def announced(
    server: ApiServer, *, name: str, kubeconfig: Path | None, log: str = "", dashboard: str = ""
) -> AsyncIterator[str]:
    """Announce a server that is ready, and take that back at the end. Gives what to print.

    ``name`` may be empty: a free one is taken. Raises CommandError if the kubeconfig cannot be written.
    """
    data = server.options.data_dir

    def describe(name: str) -> Instance:
        file, before = "", None
        if kubeconfig is not None:
            file = str(kubeconfig.absolute())
            other = first_in(file)
            before = other.context_before if other is not None else text_of(kubeconfig)
        return Instance(
            name=name,
            pid=os.getpid(),
            started=start_of(os.getpid()),
            url=server.url,
            kubeconfig=server.kubeconfig(name),
            context_file=file,
            context_before=before,
            data_dir=str(data.absolute()) if data is not None else "",
            log=log,
            node_sockets=str(server.nodes.folder or ""),
            dashboard=dashboard,
        )

    entry = await asyncio.to_thread(register, name, describe)
    context = None
    try:
        if kubeconfig is not None:
            context = ContextInFile(kubeconfig, entry.name, before=entry.context_before)
            await asyncio.to_thread(
                partial(context.add, entry.kubeconfig, left_behind=left_behind(entry.context_file))
            )
        try:
            yield ready_lines(server.url, entry.name, kubeconfig, dashboard)
        finally:
            if context is not None:
                await asyncio.to_thread(context.remove)
    finally:
        await asyncio.to_thread(forget, entry.name)


def ready_lines(url: str, name: str, kubeconfig: Path | None, dashboard: str = "") -> str:
    """What a cluster says when it is ready: where it is, how to get in, where to look."""
    if kubeconfig is not None:
        lines = [f"ready: {url}, context {name} in {_shown(kubeconfig)}"]
        lines.append(f"try: kubectl --context {name} get namespaces")
    else:
        lines = [f"ready: {url}", f"get in: quarterdeck kubeconfig {name}"]
    return "\n".join([*lines, f"dashboard: {dashboard}"] if dashboard else lines)


def _shown(path: Path) -> str:
    """A path as people write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
