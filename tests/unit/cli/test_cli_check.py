"""What `quarterdeck check` finds: every invariant is broken once, and holds otherwise."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from quarterdeck.api import Resource, from_dict
from quarterdeck.api.invariant import Objects
from quarterdeck.api.k8s import Lease, Node, Pod, Secret
from quarterdeck.cli.check.command import find_broken, installed_invariants
from quarterdeck.cli.main import main
from quarterdeck.operators.grove.types import PodClique
from quarterdeck.operators.ipam.types import KINDS, Subnet, SubnetClaim, SubnetPool
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.kai.types import PodGroup, Queue
from quarterdeck.operators.trainer.types import ClusterTrainingRuntime, TrainJob
from quarterdeck.testing import TestCluster

R = TypeVar("R", bound=Resource)
ALL = {each.name: each for each in installed_invariants()}


def made(kind: type[R], name: str, *, meta: dict[str, Any] | None = None, **parts: Any) -> R:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1} | (meta or {})
    return from_dict({"metadata": metadata, **parts}, kind)


def found(name: str, *objects: Resource) -> list[tuple[str, str]]:
    by_kind: dict[type[Resource], list[Resource]] = {}
    for each in objects:
        by_kind.setdefault(type(each), []).append(each)
    return [(each.object, each.problem) for each in ALL[name].broken(Objects(by_kind))]


def subnet(name: str, cidr: str, *, pool: str = "p", cluster: str = "c", **more: Any) -> Subnet:
    spec = {"poolRef": pool, "cidr": cidr, "clusterID": cluster}
    return made(Subnet, name, spec=spec, status={"phase": "Allocated"}, **more)


def claim(name: str, cidr: str, **spec: Any) -> SubnetClaim:
    status = {"phase": "Bound", "allocatedCIDR": cidr}
    return made(SubnetClaim, name, spec={"poolRef": "p", "clusterID": "c", **spec}, status=status)


def owned(kind: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "x/v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}
    return {"ownerReferences": [reference]}


def pod(name: str, node: str = "", *, meta: dict[str, Any] | None = None, **requests: str) -> Pod:
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    return made(Pod, name, meta=meta, spec={"nodeName": node, "containers": containers})


def test_subnets_of_one_pool_do_not_overlap() -> None:
    apart = subnet("a", "10.0.0.0/24"), subnet("b", "10.0.1.0/24"), subnet("c", "10.0.0.0/24", pool="q")
    assert found("ipam/no-overlap", *apart) == []
    assert found("ipam/no-overlap", *apart, subnet("d", "10.0.1.128/25")) == [
        ("Subnet default/d", "10.0.1.128/25 overlaps 10.0.1.0/24 of Subnet default/b in the same pool")
    ]


def test_a_block_inside_an_earlier_wide_one_is_found_behind_others() -> None:
    blocks = subnet("wide", "10.0.0.0/16"), subnet("a", "10.0.1.0/24"), subnet("b", "10.0.2.0/24")
    assert [name for name, _ in found("ipam/no-overlap", *blocks)] == ["Subnet default/a", "Subnet default/b"]


def test_a_bound_claim_has_one_subnet() -> None:
    good = subnet("a", "10.0.0.0/24")
    assert found("ipam/bound-once", good, claim("x", "10.0.0.0/24")) == []
    assert found("ipam/bound-once", good, claim("x", "10.0.1.0/24")) == [
        ("SubnetClaim default/x", "is bound to 10.0.1.0/24 of p, and 0 Subnets of its cluster have it")
    ]
    twice = found("ipam/bound-once", good, subnet("b", "10.0.0.0/24"), claim("x", "10.0.0.0/24"))
    assert "2 Subnets" in twice[0][1]


def test_a_subnet_goes_with_its_claim() -> None:
    orphan = subnet("a", "10.0.0.0/24", meta=owned("SubnetClaim", "uid-x"))
    assert found("ipam/no-leak", orphan, claim("x", "10.0.0.0/24")) == []
    assert found("ipam/no-leak", orphan) == [
        ("Subnet default/a", "belongs to SubnetClaim owner, which is gone")
    ]


def test_the_status_of_a_pool_is_exact() -> None:
    def pool(count: int, free: int, generation: int = 1) -> SubnetPool:
        status: dict[str, Any] = {"allocatedCount": count, "observedGeneration": generation}
        sizes = {str(size): free << size - 24 for size in range(24, 29)}
        status["freeCountBySize"] = {str(size): 0 for size in range(16, 24)} | sizes | {"/24": free}
        return made(SubnetPool, "p", spec={"cidr": "10.0.0.0/23"}, status=status)

    member = subnet("a", "10.0.0.0/24")
    assert found("ipam/exact-status", member, pool(1, 1)) == []
    assert "allocatedCount 2, and has 1" in found("ipam/exact-status", member, pool(2, 1))[0][1]
    assert "freeCountBySize" in found("ipam/exact-status", member, pool(1, 2))[0][1]
    assert "generation 7" in found("ipam/exact-status", member, pool(1, 1, 7))[0][1]


def test_a_requested_block_is_not_replaced() -> None:
    assert found("ipam/as-requested", claim("x", "10.0.0.0/24", requestedCIDR="10.0.0.7/24")) == []
    assert found("ipam/as-requested", claim("x", "10.0.1.0/24", requestedCIDR="10.0.0.0/24")) == [
        ("SubnetClaim default/x", "asked for 10.0.0.0/24 and was given 10.0.1.0/24")
    ]


def test_a_parent_gives_nothing_out_of_a_child() -> None:
    child = made(
        SubnetPool, "child", meta={"labels": {"plexaubnet.io/parent": "p"}}, spec={"cidr": "10.0.0.0/24"}
    )
    assert found("ipam/child-ranges", child, subnet("holds", "10.0.0.0/24")) == []
    assert found("ipam/child-ranges", child, subnet("a", "10.0.0.0/26")) == [
        ("Subnet default/a", "10.0.0.0/26 of p lies inside the child pool child")
    ]


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


def test_a_node_has_the_range_that_is_claimed_for_it() -> None:
    status = {"phase": "Bound", "allocatedCIDR": "10.0.0.0/24"}
    of_node = made(SubnetClaim, "a-1", meta=owned("Node", "uid-a"), status=status)
    assert found("ipam/node-ranges", of_node, node_with("a", "10.0.0.0/24")) == []
    assert found("ipam/node-ranges", of_node, node_with("a", "10.0.1.0/24")) == [
        ("Node a", "its SubnetClaim has 10.0.0.0/24 for its pods, and its range is 10.0.1.0/24")
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


def test_gangs_run_with_their_minimum_and_queues_within_their_limit() -> None:
    group = made(PodGroup, "g", spec={"minMember": 2})
    of_group = {"annotations": {"pod-group-name": "g"}}
    placed, waiting = pod("a", "n", meta=of_group), pod("b", meta=of_group)
    assert found("kai/gang-minimum", group, waiting) == []
    assert found("kai/gang-minimum", group, placed, pod("b", "n", meta=of_group)) == []
    assert found("kai/gang-minimum", group, placed, waiting) == [
        ("PodGroup default/g", "1 of its pods have a node, and it needs 2 to work")
    ]

    def queue(gpus: str) -> Queue:
        limits = {"gpu": {"limit": 4}, "cpu": {"limit": -1}, "memory": {"limit": -1}}
        status = {"allocated": {"nvidia.com/gpu": gpus, "cpu": "100"}}
        return made(Queue, "q", meta={"namespace": ""}, spec={"resources": limits}, status=status)

    assert found("kai/queue-limit", queue("4")) == []
    assert found("kai/queue-limit", queue("5")) == [
        ("Queue q", "5 nvidia.com/gpu are in use, and its limit is 4")
    ]


def test_a_clique_has_no_pod_too_many() -> None:
    clique = made(PodClique, "q", spec={"replicas": 1})
    labels = {"labels": {"grove.io/podclique": "q"}}
    assert found("grove/no-extra-pods", clique, pod("a", meta=labels)) == []
    assert found("grove/no-extra-pods", clique, pod("a", meta=labels), pod("b", meta=labels)) == [
        ("PodClique default/q", "has 2 pods, and wants 1")
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
        broken = await find_broken(cluster.client, list(ALL.values()), settle=0.01)
        assert [(each.invariant, each.object) for each in broken] == [("ipam/no-overlap", "Subnet default/b")]


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
