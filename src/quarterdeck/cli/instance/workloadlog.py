"""The logs of a workload by the name that `quarterdeck top` shows: `quarterdeck logs trainjob/resnet`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.cli.argument import did_you_mean
from quarterdeck.cli.error import CommandError
from quarterdeck.errors import ApiError

if TYPE_CHECKING:
    from quarterdeck.client import Client, Config

_JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
_SET: Final = "app.kubernetes.io/part-of"
KINDS: Final = {
    "trainjob": _JOB_SET,
    "jobset": _JOB_SET,
    "podcliqueset": _SET,
    "pcs": _SET,
    "job": "batch.kubernetes.io/job-name",
}
"""The label of pods that has the name of their workload, by its kind."""


async def print_logs(config: Config, name: str, namespace: str) -> int:
    """Print what each container of the workload wrote, with the name of its pod in front of each line."""
    from quarterdeck.client import Client

    async with Client.connect(config) as client:
        for pod in await _pods(client, name, namespace):
            await _print_log(client, pod)
    return 0


async def _pods(client: Client, name: str, namespace: str) -> list[Any]:
    from quarterdeck.api.k8s import Pod

    kind, _, own = name.rpartition("/")
    if kind and kind not in KINDS:
        raise CommandError(
            f"no workload of the kind {kind!r}; take one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}"
        )
    labels = {KINDS[kind]} if kind else set(KINDS.values())
    found = [
        pod
        for pod in (await client.list(Pod, namespace=namespace)).items
        if any(pod.metadata.labels.get(label) == own for label in labels)
    ]
    if not found:
        raise CommandError(f"no pods of {name} in the namespace {namespace}; name another with --namespace")
    return sorted(found, key=lambda pod: pod.metadata.name)


async def _print_log(client: Client, pod: Any) -> None:
    from quarterdeck.api.k8s import Pod

    containers = [each.name for each in pod.spec.containers]
    for container in containers:
        head = pod.metadata.name if len(containers) == 1 else f"{pod.metadata.name}/{container}"
        try:
            text = await client.subresource("log").read(
                Pod, pod.metadata.name, pod.metadata.namespace, container=container
            )
        except ApiError as error:
            print(f"[{head}] no log: {error}", file=sys.stderr)
            continue
        for line in text.decode(errors="replace").splitlines():
            print(f"[{head}] {line}")
