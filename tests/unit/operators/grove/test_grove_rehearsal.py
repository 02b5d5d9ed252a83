"""`quarterdeck grove check-config`: a configuration tried on a cluster that is not changed by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.apiserver import ApiServer, server
from quarterdeck.client import Client, InProcessTransport
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import Backend, default_registry
from quarterdeck.operators.grove.controllers.preflight import StartError
from quarterdeck.operators.grove.program import GroveProgram, RunOptions, exit_code_of
from quarterdeck.operators.grove.rehearsal import rehearse
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodGang,
    TopologyLevel,
    definitions,
)
from quarterdeck.runtime.operator.install import install_definitions

from .grovekit import NS, clique, pcs, pod_spec, running

LEVELS = "topologyAwareScheduling: {enabled: true, levels: [{domain: rack, key: r}]}"
pytestmark = pytest.mark.real_time  # the certificate of the kubeconfig is made for today


class Trial:
    """A cluster, and what would be said about configurations."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder = folder
        self.client = client
        self.told: list[str] = []

    async def check(self, config: str, *, account: str = "", **options: Any) -> int:
        file = self.folder / "config.yaml"
        file.write_text(config)
        self.told = []
        program = GroveProgram(RunOptions(config=file, kubeconfig=str(self.folder / "kubeconfig"), **options))
        return await rehearse(program, account=account, tell=self.told.append)


@asynccontextmanager
async def trial(folder: Path) -> AsyncIterator[Trial]:
    async with ApiServer() as api:
        api.write_kubeconfig(folder / "kubeconfig")
        client = Client.over(InProcessTransport(api.local()))
        await install_definitions(client, *definitions())
        yield Trial(folder, client)


async def test_a_configuration_is_tried_and_the_cluster_is_as_before(tmp_path: Path) -> None:
    async with trial(tmp_path) as found:
        client = found.client
        labels = {names.SCHEDULER_NAME: "kai-scheduler"}
        await client.create(PodGang(metadata=ObjectMeta(name="w-0", namespace=NS, labels=labels)))
        made = pcs(clique("a", pod_spec=pod_spec(scheduler_name="kai-scheduler")))
        await client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
        before = (await client.list(PodGang)).metadata.resource_version

        assert await found.check("schedulerName: default-scheduler") == 0
        assert found.told[:4] == [
            "configuration: can be read",
            "scheduler backend: default-scheduler would start",
            "PodGangs that stay with kai-scheduler: 1",
            "new PodCliqueSets: default-scheduler, unless they name another that is enabled",
        ]
        refused = [line for line in found.told if "could not be created again" in line]
        assert refused[0].startswith("PodCliqueSet default/w goes on, but could not be created again: ")
        assert found.told[-1] == "permissions: complete"
        kai = "schedulerName: kai-scheduler\nschedulerConfig: {requireQueue: false}"
        assert await found.check(kai) == 0
        assert not [line for line in found.told if "could not be created again" in line]
        # gangs of namespaces that this installation would not serve are none of its business
        assert await found.check(kai, watch_namespaces=("team",)) == 0
        assert not [line for line in found.told if line.startswith("PodGangs")]

        levels = (TopologyLevel(domain="host", key="h"),)
        foreign = ClusterTopologyBinding(metadata=ObjectMeta(name=names.DEFAULT_TOPOLOGY))
        await client.create(foreign.evolve(spec=ClusterTopologySpec(levels=levels)))
        ends = {
            "schedulerName: foo": (2, 'unsupported scheduler "foo"'),
            LEVELS: (3, "topology: ClusterTopologyBinding grove-topology exists and is not ours"),
            "schedulerConfig: {gangScheduling: true}": (5, "gangScheduling needs Workload"),
            "network: {autoMNNVLEnabled: true}": (7, "ComputeDomain CRD"),
        }
        for config, (code, text) in ends.items():
            assert await found.check(config) == code, found.told
            assert text in found.told[-1]
        assert await found.check("{}", account="nobody") == 6
        assert "permission is missing: create pods" in found.told
        assert "permission is missing: list podcliquesets.grove.io" in found.told
        # nothing was written but what this test itself has written
        assert (await client.list(PodGang)).metadata.resource_version == str(int(before) + 1)
        (tmp_path / "kubeconfig").write_text("{}")
        assert await found.check("{}") == 4


class Writes(Backend):
    """Makes something for all gangs when it starts."""

    async def init(self) -> None:
        await self.client.create(ConfigMap(metadata=ObjectMeta(name="mine", namespace=NS)))


async def test_what_backends_write_at_their_start_is_a_dry_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(default_registry._factories, "writes", Writes)
    async with trial(tmp_path) as found:
        assert await found.check("schedulerName: writes") == 0
        assert found.told[1] == "scheduler backend: writes would start"
        assert not (await found.client.list(ConfigMap, namespace=NS)).items
        await found.client.create(ConfigMap(metadata=ObjectMeta(name="mine", namespace=NS)))
        assert await found.check("schedulerName: writes") == 5
        assert "already exists" in found.told[-1]


@pytest.mark.parametrize(("minor", "is_old"), [("26", True), ("26+", True), ("27+", False), ("", False)])
async def test_kubernetes_without_scheduling_gates_is_refused(
    minor: str, is_old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}
    monkeypatch.setattr(server, "version_document", lambda: version)
    if not is_old:
        async with running():
            return
    with pytest.raises(
        StartError, match=r"this is Kubernetes v1\.26.*need Kubernetes 1\.27 or newer"
    ) as error:
        async with running():
            pass
    assert exit_code_of(error.value) == 6
