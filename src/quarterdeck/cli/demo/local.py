"""`quarterdeck demo --local`: a TrainJob whose processes run on this machine, and what they say."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.localnode.settings import local_node

if TYPE_CHECKING:
    from quarterdeck.client import Client

_PERIOD: Final = 0.5
_PATIENCE: Final = 120.0


async def demo(arguments: argparse.Namespace, examples: Path) -> int:
    """Run the examples of the local node to their end and print their logs."""
    from quarterdeck.apiserver import ServerOptions
    from quarterdeck.apiserver.admission.plugin import FOR_CLUSTERS
    from quarterdeck.cli.apiserver import stop_signal
    from quarterdeck.cli.cluster import running_cluster
    from quarterdeck.cli.demo.command import apply_all
    from quarterdeck.cli.instance.announcement import announced
    from quarterdeck.cli.instance.kubeconfigfile import default_path
    from quarterdeck.cli.operators import settings_of
    from quarterdeck.client import Client, InProcessTransport
    from quarterdeck.cluster.node.profile import NodeSettings

    folder = examples / "local-node"
    if not folder.is_dir():
        raise CommandError(f"{folder} is no folder; name the one above it with --examples")
    stopping, settings = stop_signal(), settings_of(arguments)
    async with (
        running_cluster(
            ServerOptions(admission_plugins=FOR_CLUSTERS),
            ["trainer"],
            settings.operators,
            stopping,
            nodes=NodeSettings(),
            local_node=local_node(arguments, settings.node),
            log_level="ERROR",
            is_kept=False,
        ) as server,
        announced(server, name="", kubeconfig=arguments.kubeconfig or default_path()) as lines,
        Client.over(InProcessTransport(server.local())) as client,
    ):
        print(lines)
        async for line in apply_all(client, folder, {}):
            print(line, flush=True)
        has_succeeded = await _finished(client, stopping)
        await _print_logs(client)
        if not has_succeeded:
            raise CommandError("the example did not complete")
        if not arguments.once:
            print("the cluster is yours until Ctrl-C", flush=True)
            await stopping.wait()
    return 0


async def _finished(client: Client, stopping: asyncio.Event) -> bool:
    """Wait until all TrainJobs have ended; whether they completed."""
    from quarterdeck.api import GroupVersionKind

    kind = GroupVersionKind("trainer.kubeflow.org", "v1alpha1", "TrainJob")
    deadline = asyncio.get_running_loop().time() + _PATIENCE
    while not stopping.is_set() and asyncio.get_running_loop().time() < deadline:
        ends = []
        for job in (await client.list(kind, namespace="default")).items:
            conditions = (job.to_dict().get("status") or {}).get("conditions") or ()
            ends.append({each["type"] for each in conditions if each["status"] == "True"})
        if ends and all(each & {"Complete", "Failed"} for each in ends):
            return all("Complete" in each for each in ends)
        await asyncio.sleep(_PERIOD)
    return False


async def _print_logs(client: Client) -> None:
    from quarterdeck.api.k8s import Pod

    for pod in (await client.list(Pod, namespace="default")).items:
        text = await client.subresource("log").read(Pod, pod.metadata.name, pod.metadata.namespace)
        print(f"--- {pod.metadata.name} ({pod.status.phase})\n{text.decode(errors='replace')}", end="")
