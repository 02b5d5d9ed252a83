"""What `quarterdeck check` finds: every invariant is broken once, and holds otherwise."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from quarterdeck.api import Resource
from quarterdeck.api.invariant import Objects
from quarterdeck.api.k8s import Lease, Node, Pod, Secret
from quarterdeck.cli.check.command import find_broken, installed_invariants
from quarterdeck.cli.main import main
from quarterdeck.operators.ipam.types import KINDS, Subnet
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.types import ClusterTrainingRuntime, TrainJob
from quarterdeck.testing import TestCluster
from tests.unit.operators.invariantkit import broken, made, owned

R = TypeVar("R", bound=Resource)
ALL = {each.name: each for each in installed_invariants()}


def found(name: str, *objects: Resource) -> list[tuple[str, str]]:
    return broken(ALL.values(), name, *objects)


def subnet(name: str, cidr: str, *, pool: str = "p", cluster: str = "c", **more: Any) -> Subnet:
    spec = {"poolRef": pool, "cidr": cidr, "clusterID": cluster}
    return made(Subnet, name, spec=spec, status={"phase": "Allocated"}, **more)


def pod(name: str, node: str = "", *, meta: dict[str, Any] | None = None, **requests: str) -> Pod:
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return made(Pod, name, meta=meta, spec={"nodeName": node, "containers": containers})


def node_with(name: str, *ranges: str) -> Node:
    return made(Node, name, meta={"namespace": ""}, spec={"podCIDRs": ranges})


def test_nodes_do_not_share_addresses_of_pods() -> None:
    apart = node_with("a", "10.0.0.0/24", "2001:db8::/64"), node_with("b", "10.0.1.0/24"), node_with("c")
    assert found("cluster/pod-ranges", *apart) == []
    inside = node_with("d", "10.0.0.128/25"), node_with("e", "10.0.0.192/26")
    assert found("cluster/pod-ranges", *apart, *inside) == [
        ("Node d", "its pod range 10.0.0.128/25 overlaps 10.0.0.0/24 of node a"),
        ("Node e", "its pod range 10.0.0.192/26 overlaps 10.0.0.0/24 of node a"),
    ]


def lease(name: str, minute: int, holder: str = "a", space: str = "default") -> Lease:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": f"2030-01-01T00:{minute:02}:00.000000Z",
    }
    return made(Lease, name, meta={"namespace": space}, spec=spec)


def test_who_leads_renews_its_lease() -> None:
    node = lease("node", 5, space="kube-node-lease")
    assert found("cluster/leaders", node, lease("crew", 4), lease("free", 0, holder="")) == []
    assert found("cluster/leaders", lease("crew", 0)) == []
    late = lease("node", 0, space="kube-node-lease")
    assert found("cluster/leaders", node, late, lease("crew", 2)) == [
        ("Lease default/crew", "a leads, and has not renewed it for 165 s too long")
    ]


def test_nodes_have_room_for_their_pods() -> None:
    node = made(Node, "n", meta={"namespace": ""}, status={"allocatable": {"cpu": "2"}})
    assert found("cluster/room", node, pod("a", "n", cpu="1"), pod("b", "n", cpu="1")) == []
    assert found("cluster/room", node, pod("a", "n", cpu="1500m"), pod("b", "n", cpu="1")) == [
        ("Node n", "its pods request 2500m cpu, and it has 2")
    ]
    assert found("cluster/places", node, pod("a", "n"), pod("b")) == []
    assert found("cluster/places", node, pod("a", "m")) == [
        ("Pod default/a", "is bound to node m, which is gone")
    ]


def test_train_jobs_have_one_jobset_with_its_variables_and_keys() -> None:
    job = made(TrainJob, "t", spec={"runtimeRef": {"name": "torch"}})
    runtime = made(
        ClusterTrainingRuntime,
        "torch",
        meta={"namespace": ""},
        spec={"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {}}},
    )

    def jobset(name: str, nodes: str = "1", uid: str = "uid-t") -> JobSet:
        env = [
            {"name": "PET_NNODES", "value": nodes},
            {
                "name": "PET_NODE_RANK",
                "valueFrom": {
                    "fieldRef": {
                        "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"
                    }
                },
            },
            {"name": "PET_MASTER_ADDR", "value": "t-node-0-0.t"},
            {"name": "PET_MASTER_PORT", "value": "29500"},
        ]
        pods = {"spec": {"containers": [{"name": "node", "env": env}]}}
        labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
        template = {"metadata": labels, "spec": {"parallelism": 1, "template": pods}}
        jobs = [{"name": "node", "replicas": 1, "template": template}]
        return made(JobSet, name, meta=owned("TrainJob", uid), spec={"replicatedJobs": jobs})

    assert found("trainer/one-jobset", job, jobset("t")) == []
    assert found("trainer/one-jobset", job, jobset("other"))[0][0] == "JobSet default/other"
    assert found("trainer/one-jobset", jobset("t")) == [("JobSet default/t", "its TrainJob is gone")]
    assert found("trainer/reserved-variables", job, runtime, jobset("t")) == []
    assert found("trainer/reserved-variables", job, runtime, jobset("t", nodes="9")) == [
        ("JobSet default/t", "somebody changed what the system sets: PET_NNODES")
    ]

    def keys(immutable: bool) -> Secret:
        meta = owned("TrainJob", "uid-t")
        return made(Secret, "k", meta=meta, type="kubernetes.io/ssh-auth", immutable=immutable)

    assert found("trainer/fixed-keys", job, keys(True)) == []
    assert found("trainer/fixed-keys", job, keys(False))[0][0] == "Secret default/k"


def test_every_invariant_is_known_by_its_owner() -> None:
    assert {name.partition("/")[0] for name in ALL} >= {"cluster", "grove", "ipam", "kai", "trainer"}


async def test_a_cluster_is_read_and_kinds_that_it_lacks_are_passed_over() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        for each in (subnet("a", "10.0.0.0/24"), subnet("b", "10.0.0.0/25")):
            await cluster.client.create(each.evolve(metadata=each.metadata.evolve(uid="", generation=0)))
        seen = await find_broken(cluster.client, list(ALL.values()), settle=0.01)
        assert [(each.invariant, each.object) for each in seen] == [("ipam/no-overlap", "Subnet default/b")]


def test_an_unknown_name_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nonsense"]) == 1
    assert "nothing is called nonsense; there are cluster, grove, ipam" in capsys.readouterr().err


@pytest.mark.parametrize("name", ALL)
def test_an_invariant_looks_at_the_kinds_that_it_names(name: str) -> None:
    looked: set[type[Resource]] = set()

    class Watched(Objects):
        def of(self, kind: type[R]) -> list[R]:
            looked.add(kind)
            return super().of(kind)

    assert ALL[name].broken(Watched({})) == []
    assert looked == set(ALL[name].kinds)
