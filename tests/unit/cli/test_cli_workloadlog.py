"""`quarterdeck logs trainjob/resnet`: logs by the names that `quarterdeck top` shows."""

from __future__ import annotations

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Container, Pod, PodSpec
from quarterdeck.cli.error import CommandError
from quarterdeck.cli.instance.workloadlog import _pods
from quarterdeck.client import Client

LABELS = {
    "train": {"jobset.sigs.k8s.io/jobset-name": "resnet"},
    "serve": {"app.kubernetes.io/part-of": "chat"},
}


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("resnet", ["train"]),
        ("trainjob/resnet", ["train"]),
        ("jobset/resnet", ["train"]),
        ("pcs/chat", ["serve"]),
        ("chat", ["serve"]),
    ],
)
async def test_a_workload_is_found_by_its_name(client: Client, name: str, pods: list[str]) -> None:
    spec = PodSpec(containers=(Container(name="main", image="busybox"),))
    for each, labels in LABELS.items():
        metadata = ObjectMeta(name=each, namespace="default", labels=labels)
        await client.create(Pod(metadata=metadata, spec=spec))
    assert [pod.metadata.name for pod in await _pods(client, name, "default")] == pods
    with pytest.raises(CommandError, match="no pods of pcs/resnet in the namespace default"):
        await _pods(client, "pcs/resnet", "default")
    with pytest.raises(CommandError, match=r"no workload of the kind 'trainjobb'.*did you mean trainjob\?"):
        await _pods(client, "trainjobb/resnet", "default")
