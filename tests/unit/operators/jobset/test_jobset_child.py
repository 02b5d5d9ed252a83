"""What a JobSet makes: the marks of Jobs and pods, the Service, the claims."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import to_dict
from quarterdeck.operators.jobset.logic.child import (
    claim_name,
    coordinator_endpoint,
    has_hostnames,
    is_suspended,
    make_claim,
    make_job,
    make_service,
    replicas_of,
    subdomain_of,
)
from quarterdeck.operators.jobset.types import JobSet

from .jobsetkit import document, jobset, part

PREFIX = "jobset.sigs.k8s.io/"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


def marks(owner: Any, place: int, index: int) -> dict[str, str]:
    made = make_job(owner, owner.spec.replicated_jobs[place], index)
    assert made.metadata.labels == made.spec.template.metadata.labels
    return {name.removeprefix(PREFIX): value for name, value in made.metadata.labels.items()}


def test_jobs_are_counted_within_their_part_the_set_and_their_group() -> None:
    owner = jobset(
        part("a", replicas=2, groupName="one"),
        part("b", replicas=3, groupName="two"),
        part("c", replicas=4, groupName="one"),
    )
    found = marks(owner, 2, 3)
    assert found["replicatedjob-replicas"] == "4"
    assert found["global-replicas"] == "9"
    assert (found["job-index"], found["job-global-index"]) == ("3", "8")
    assert (found["group-name"], found["group-replicas"], found["job-group-index"]) == ("one", "6", "5")
    assert marks(owner, 0, 0)["job-global-index"] == "0"
    assert marks(jobset(part("a")), 0, 0)["group-name"] == "default"


def test_restarts_of_the_set_and_of_a_job_alone_are_marked() -> None:
    owner = jobset(status={"restarts": 3})
    assert marks(owner, 0, 0)["restart-attempt"] == "3"
    assert marks(jobset(), 0, 0)["restart-attempt"] == "0"
    assert "job-restart-attempt" not in marks(owner, 0, 0)
    alone = make_job(owner, owner.spec.replicated_jobs[0], 0, own_restarts=2)
    assert alone.metadata.labels[f"{PREFIX}job-restart-attempt"] == "2"


@pytest.mark.parametrize(
    ("coordinator", "subdomain", "endpoint"),
    [
        ({"replicatedJob": "a"}, "", "js-a-0-0.js"),
        ({"replicatedJob": "a", "jobIndex": 2, "podIndex": 5}, "net", "js-a-2-5.net"),
    ],
)
def test_the_coordinator_is_told_to_every_pod(coordinator: Any, subdomain: str, endpoint: str) -> None:
    owner = jobset(coordinator=coordinator, network={"subdomain": subdomain})
    assert coordinator_endpoint(owner) == endpoint
    assert marks(owner, 0, 0)["coordinator"] == endpoint
    assert "coordinator" not in marks(jobset(), 0, 0)
    assert coordinator_endpoint(jobset()) == ""


def test_pods_have_host_names_unless_they_shall_not() -> None:
    owner = jobset(network={"subdomain": "net"})
    job = make_job(owner, owner.spec.replicated_jobs[0], 0)
    assert has_hostnames(owner)
    assert job.spec.template.spec.subdomain == subdomain_of(owner) == "net"
    without = jobset(network={"enableDNSHostnames": False})
    assert not has_hostnames(without)
    assert make_job(without, without.spec.replicated_jobs[0], 0).spec.template.spec.subdomain == ""
    assert subdomain_of(without) == "js"


def test_jobs_of_a_suspended_set_are_suspended() -> None:
    owner = jobset(suspend=True)
    assert is_suspended(owner)
    assert make_job(owner, owner.spec.replicated_jobs[0], 0).spec.suspend is True
    assert not is_suspended(jobset())
    assert make_job(jobset(), owner.spec.replicated_jobs[0], 0).spec.suspend is False


def test_there_is_one_job_unless_more_are_wanted() -> None:
    owner = jobset(part("a"), part("b", replicas=0))
    assert [replicas_of(each) for each in owner.spec.replicated_jobs] == [1, 0]


def annotated(set_: dict[str, str], own: dict[str, str]) -> Any:
    owner = jobset()
    owner = owner.evolve(metadata=owner.metadata.evolve(annotations=set_))
    job = owner.spec.replicated_jobs[0]
    template = job.template.evolve(metadata=job.template.metadata.evolve(annotations=own))
    return make_job(owner, job.evolve(template=template), 0)


def test_a_job_asks_for_a_topology_of_its_own_or_for_that_of_the_set() -> None:
    assert annotated({EXCLUSIVE: "rack"}, {}).spec.template.metadata.annotations[EXCLUSIVE] == "rack"
    own = annotated({EXCLUSIVE: "rack", BY_SELECTOR: "true"}, {EXCLUSIVE: "node"})
    assert own.metadata.annotations[EXCLUSIVE] == "node"
    assert EXCLUSIVE not in annotated({BY_SELECTOR: "true"}, {}).metadata.annotations


def test_by_node_selector_a_job_runs_on_nodes_that_are_named_after_it() -> None:
    pod = annotated({EXCLUSIVE: "rack", BY_SELECTOR: "true"}, {}).spec.template.spec
    assert dict(pod.node_selector) == {"alpha.jobset.sigs.k8s.io/namespaced-job": "default_js-a-0"}
    [toleration] = pod.tolerations
    assert (toleration.operator, toleration.effect) == ("Exists", "NoSchedule")
    plain = annotated({EXCLUSIVE: "rack"}, {}).spec.template.spec
    assert (dict(plain.node_selector), list(plain.tolerations)) == ({}, [])


CLAIMS = [{"templates": [{"metadata": {"name": "cache", "labels": {"x": "y"}}, "spec": {}}]}]
MOUNT = {"volumeMounts": [{"name": "cache", "mountPath": "/m"}]}


@pytest.mark.parametrize(
    ("pod", "volumes"),
    [
        ({"containers": [{"name": "c", "image": "x", **MOUNT}]}, ["cache"]),
        (
            {
                "initContainers": [{"name": "i", "image": "x", **MOUNT}],
                "volumes": [{"name": "own", "emptyDir": {}}],
            },
            ["own", "cache"],
        ),
        ({}, []),
    ],
)
def test_pods_that_mount_a_claim_get_its_volume(pod: dict[str, Any], volumes: list[str]) -> None:
    owner = jobset(part("a", pod=pod), volumeClaimPolicies=CLAIMS)
    spec = make_job(owner, owner.spec.replicated_jobs[0], 0).spec.template.spec
    assert [each.name for each in spec.volumes] == volumes
    if volumes:
        source = spec.volumes[-1].persistent_volume_claim
        assert source
        assert source.claim_name == "cache-js"


@pytest.mark.parametrize(("when", "owned"), [(None, True), ("Delete", True), ("Retain", False)])
def test_a_claim_goes_with_its_set_unless_it_is_retained(when: str | None, owned: bool) -> None:
    policies = [{**CLAIMS[0], **({"retentionPolicy": {"whenDeleted": when}} if when else {})}]
    owner = jobset(volumeClaimPolicies=policies)
    [policy] = owner.spec.volume_claim_policies
    claim = make_claim(owner, policy, policy.templates[0])
    assert claim.metadata.name == claim_name(owner, policy.templates[0]) == "cache-js"
    assert dict(claim.metadata.labels) == {"x": "y", f"{PREFIX}jobset-name": "js"}
    assert bool(claim.metadata.owner_references) is owned


@pytest.mark.parametrize(("said", "published"), [(None, True), (True, True), (False, False)])
def test_the_service_has_no_address_and_publishes_pods(said: bool | None, published: bool) -> None:
    network = {} if said is None else {"publishNotReadyAddresses": said}
    made = to_dict(make_service(jobset(network=network)))["spec"]
    assert made["clusterIP"] == "None"
    assert made["selector"] == {f"{PREFIX}jobset-name": "js"}
    assert made.get("publishNotReadyAddresses", False) is published
    without = JobSet.from_dict(document())
    assert make_service(without).spec.publish_not_ready_addresses is True
