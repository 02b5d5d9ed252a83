"""Admission of JobSets: what is filled in, what is refused, and that the API server asks."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, to_dict
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import Invalid
from quarterdeck.operators.jobset.logic.defaults import with_defaults
from quarterdeck.operators.jobset.logic.validation import update_problems
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.webhooks import jobset_webhooks
from quarterdeck.testing import TestCluster

from .jobsetkit import complaints, document, part


def test_defaults_are_filled_in() -> None:
    rules = [{"action": "FailJobSet"}, {"action": "RestartJobSet", "name": "mine"}]
    made = to_dict(with_defaults(JobSet.from_dict(document(failurePolicy={"rules": rules}))))["spec"]
    assert made["successPolicy"] == {"operator": "All"}
    assert made["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert made["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    job = made["replicatedJobs"][0]["template"]["spec"]
    assert job["completionMode"] == "Indexed"
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure"
    assert [each["name"] for each in made["failurePolicy"]["rules"]] == ["failurePolicyRule0", "mine"]


def test_what_is_said_stays() -> None:
    said = part("a", job={"completionMode": "NonIndexed"}, pod={"restartPolicy": "Never"})
    network = {"enableDNSHostnames": False, "subdomain": "s", "publishNotReadyAddresses": False}
    before = JobSet.from_dict(
        document(
            said,
            network=network,
            successPolicy={"operator": "Any"},
            startupPolicy={"startupPolicyOrder": "InOrder"},
        )
    )
    assert with_defaults(before) == before


def test_a_plain_jobset_is_fine() -> None:
    assert complaints(part("a"), part("b", dependsOn=[{"name": "a", "status": "Ready"}])) == []


@pytest.mark.parametrize(
    ("parts", "spec", "said"),
    [
        (
            [part("a", dependsOn=[{"name": "a", "status": "Ready"}])],
            {},
            "DependsOn can't be set for the first ReplicatedJob",
        ),
        (
            [part("a"), part("b", dependsOn=[{"name": "c", "status": "Ready"}]), part("c")],
            {},
            "replicatedJob: b cannot depend on replicatedJob: c",
        ),
        (
            [],
            {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["z"]}},
            "invalid replicatedJob name 'z' does not appear in .spec.ReplicatedJobs",
        ),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["z"]}]}},
            "invalid replicatedJob name 'z' in failure policy does not appear in .spec.ReplicatedJobs",
        ),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Bad"]}]}},
            "invalid job failure reason 'Bad' in failure policy is not a recognized job failure reason",
        ),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["("]}]}},
            "invalid job failure message pattern '(' in failure policy",
        ),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "x"}] * 2}},
            "rule names are not unique, rules with indices [0 1] all have the same name 'x'",
        ),
        (
            [],
            {"failurePolicy": {"restartStrategy": "InPlaceRestart"}},
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled",
        ),
        (
            [part("a", replicas=2**20, job={"parallelism": 2**12})],
            {},
            "the product of replicas and parallelism must not exceed 2147483647 for replicatedJob 'a'",
        ),
        (
            [],
            {"coordinator": {"replicatedJob": "z"}},
            "coordinator replicatedJob z does not exist",
        ),
        (
            [part("a", job={"completions": 2, "parallelism": 2})],
            {"coordinator": {"replicatedJob": "a", "podIndex": 2}},
            "coordinator pod index 2 is invalid for replicatedJob a job index 0",
        ),
        (
            [],
            {"managedBy": "nobody"},
            'spec.managedBy: Invalid value: "nobody": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
    ],
)
def test_what_makes_no_sense_is_refused(parts: list[Any], spec: dict[str, Any], said: str) -> None:
    assert said in complaints(*parts, **spec)


def test_names_must_leave_room_for_what_is_made_of_them() -> None:
    [told] = complaints(name="a" * 60)
    assert told.endswith(
        "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    )
    [told] = complaints(part("a", job={"completions": 1}), name="a" * 55)
    assert told.endswith(
        "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
    )
    assert complaints(part("a", job={"completions": 1}), name="a" * 51) == []


@pytest.mark.parametrize(
    ("parts", "spec"),
    [
        ([part("a", replicas=2**31 - 1)], {}),
        ([part("a", job={"completions": 2})], {"coordinator": {"replicatedJob": "a", "podIndex": 1}}),
        (
            [part("a", replicas=2, job={"completions": 1})],
            {"coordinator": {"replicatedJob": "a", "jobIndex": 1}},
        ),
        ([], {"managedBy": "example.com/" + "x" * 51}),
        ([], {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "x" * 128}]}}),
        ([], {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "a,b:c_"}]}}),
        ([part("a", groupName="g" * 63)], {}),
    ],
    ids=["product", "pod", "job", "manager", "rule", "rule name", "group"],
)
def test_what_reaches_a_limit_is_fine(parts: list[Any], spec: dict[str, Any]) -> None:
    assert complaints(*parts, **spec) == []


@pytest.mark.parametrize(
    ("parts", "spec", "said"),
    [
        ([part("a", replicas=2**30, job={"parallelism": 2})], {}, "must not exceed 2147483647"),
        (
            [part("a", replicas=2, job={"completions": 1})],
            {"coordinator": {"replicatedJob": "a", "jobIndex": 2}},
            "coordinator job index 2 is invalid",
        ),
        (
            [part("a", job={"completions": 1})],
            {"coordinator": {"replicatedJob": "a", "jobIndex": -1}},
            "coordinator job index -1 is invalid",
        ),
        (
            [part("a", job={"completions": 1})],
            {"coordinator": {"replicatedJob": "a", "podIndex": -1}},
            "coordinator pod index -1 is invalid",
        ),
        (
            [part("a", job={"completionMode": "NonIndexed", "completions": 1})],
            {"coordinator": {"replicatedJob": "a"}},
            "must be indexed completion mode",
        ),
        (
            [part("a")],
            {"coordinator": {"replicatedJob": "a"}},
            "must be indexed completion mode",
        ),
        (
            [part("a", job={"completions": 1})],
            {"coordinator": {"replicatedJob": "a"}, "network": {"subdomain": "s" * 60}},
            "spec will lead to invalid label value",
        ),
        ([], {"managedBy": "example.com/" + "x" * 52}, "spec.managedBy: Too long: may not be more than 63"),
        ([], {"managedBy": "/path"}, "must be a domain-prefixed path"),
        ([], {"managedBy": "example.com/"}, "must be a domain-prefixed path"),
        ([], {"managedBy": "Bad_Domain/path"}, 'spec.managedBy: Invalid value: "Bad_Domain/path"'),
        ([], {"managedBy": "example.com/a b"}, "Invalid path"),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "x" * 129}]}},
            "invalid failure policy rule name of length 129",
        ),
        (
            [],
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "1st"}]}},
            "must start with an alphabetic character",
        ),
        (
            [part("a", groupName="g" * 64)],
            {},
            'groupName: Invalid value: "' + "g" * 64 + '": group name is too long',
        ),
    ],
)
def test_what_goes_beyond_a_limit_is_refused(parts: list[Any], spec: dict[str, Any], said: str) -> None:
    assert said in "\n".join(complaints(*parts, **spec))


def test_the_longest_name_of_the_last_job_and_pod_counts() -> None:
    # js-NAME-a-9 is a character shorter than js-NAME-a-10
    assert complaints(part("a", replicas=10), name="n" * 59) == []
    assert len(complaints(part("a", replicas=11), name="n" * 59)) == 1
    assert complaints(part("a", replicas=0), name="n" * 59) == []
    last = part("a", job={"completions": 10})
    assert complaints(last, name="n" * 51) == []
    assert len(complaints(part("a", job={"completions": 11}), name="n" * 51)) == 1
    assert complaints(part("a", job={"completions": 11, "completionMode": "NonIndexed"}), name="n" * 51) == []


def test_without_a_name_there_is_nothing_to_say_about_its_length() -> None:
    assert complaints(part("a" * 63), name="") == []


def claiming(name: str, *volumes: str, **mounts: Any) -> list[str]:
    """What is said about a claim that one container mounts."""
    container = {"name": "c", "image": "x", "volumeMounts": [{"name": name, "mountPath": "/m"}]}
    pod = {"containers": [container], "volumes": [{"name": each} for each in volumes], **mounts}
    policies = [{"templates": [{"metadata": {"name": name}, "spec": {}}]}]
    return complaints(part("a", pod=pod), volumeClaimPolicies=policies)


def test_names_of_claims_are_checked() -> None:
    assert claiming("cache") == []
    assert claiming("c" * 250) == []  # with the name of the set and a dash it has 253 characters
    [told] = claiming("c" * 251)
    assert told.endswith("VolumeClaimPolicies template name is too long")
    assert any("lower case" in text for text in claiming("Bad_Name"))
    [told] = claiming("cache", "other", "cache")
    assert told.startswith("spec.replicatedJobs[0].template.spec.template.spec.volumes[1].name: ")
    assert told.endswith("volume name conflicts with VolumeClaimPolicy template name: cache")


def test_a_claim_may_be_mounted_by_an_init_container_and_must_be_named_once() -> None:
    mounting = {"name": "i", "image": "x", "volumeMounts": [{"name": "cache", "mountPath": "/m"}]}
    template = {"metadata": {"name": "cache"}, "spec": {}}
    pod = {"initContainers": [mounting]}
    assert complaints(part("a", pod=pod), volumeClaimPolicies=[{"templates": [template]}]) == []
    [told] = complaints(part("a", pod=pod), volumeClaimPolicies=[{"templates": [template]}] * 2)
    assert told.startswith("spec.volumeClaimPolicies[1].template[0].name: ")
    assert told.endswith("names must be unique for VolumeClaimPolicies template")


def test_a_subdomain_must_be_the_name_of_a_service() -> None:
    assert any("lower case" in text for text in complaints(network={"subdomain": "Bad_Name"}))
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    assert any(too_long in text for text in complaints(network={"subdomain": "a" * 64}))


def test_a_claim_needs_somebody_who_mounts_it() -> None:
    policies = [{"templates": [{"metadata": {"name": "cache"}, "spec": {}}]}]
    [told] = complaints(volumeClaimPolicies=policies)
    assert "don't have a matching volumeMount: cache" in told


def changed(**pod: Any) -> list[str]:
    """What is said about a change of the pods of a JobSet that is running, and of one that is suspended."""
    said = []
    for suspend in (False, True):
        old = JobSet.from_dict(document(part("a"), suspend=suspend))
        new = JobSet.from_dict(document(part("a", pod=pod), suspend=suspend))
        said.append(", ".join(map(str, update_problems(old, new))))
    return said


REFUSED = 'spec.replicatedJobs: Invalid value: "a": field is immutable'


def test_places_to_run_may_change_while_suspended() -> None:
    assert changed(nodeSelector={"a": "b"}) == [REFUSED, ""]
    assert changed(tolerations=[{"operator": "Exists"}]) == [REFUSED, ""]
    assert changed(schedulingGates=[{"name": "example.com/wait"}]) == [REFUSED, ""]


def test_nothing_else_may_change() -> None:
    assert changed(serviceAccountName="me") == [REFUSED, REFUSED]
    old = JobSet.from_dict(document(part("a"), suspend=True))
    new = JobSet.from_dict(document(part("a"), part("b"), suspend=True))
    assert [each.field for each in update_problems(old, new)] == ["spec.replicatedJobs"]
    new = JobSet.from_dict(document(part("a"), managedBy="example.com/other"))
    assert [each.field for each in update_problems(old, new)] == ["spec.managedBy"]


def test_suspend_may_always_change() -> None:
    old, new = JobSet.from_dict(document()), JobSet.from_dict(document(suspend=True))
    assert update_problems(old, new) == update_problems(new, old) == []


@pytest.mark.cluster(crds=[JobSet])
async def test_the_api_server_fills_in_and_refuses(cluster: TestCluster, client: Client) -> None:
    await cluster.serve_webhooks(*jobset_webhooks())
    made = await client.create(JobSet.from_dict(document()))
    assert made.spec.success_policy
    assert made.spec.success_policy.operator == "All"
    with pytest.raises(Invalid) as caught:
        await client.create(DynamicObject(document(name="b" * 62)))
    assert caught.value.code == 422
    assert "will exceed 63 characters" in str(caught.value)
    draft = made.draft()
    draft.spec.replicated_jobs[0].template.spec.template.spec.containers[0].image = "y"
    with pytest.raises(Invalid) as caught:
        await client.update(draft.done())
    assert "spec.replicatedJobs" in str(caught.value)
    assert "field is immutable" in str(caught.value)
    with pytest.raises(Invalid) as caught:  # a rule of the definition itself
        await client.patch(made, MergePatch({"spec": {"network": {"subdomain": "other"}}}))
    assert "Value is immutable" in str(caught.value)


@pytest.mark.cluster(crds=[JobSet])
async def test_order_and_dependencies_exclude_each_other(client: Client) -> None:
    dependent = part("b", dependsOn=[{"name": "a", "status": "Ready"}])
    with pytest.raises(Invalid) as caught:
        await client.create(
            DynamicObject(document(part("a"), dependent, startupPolicy={"startupPolicyOrder": "InOrder"}))
        )
    assert "StartupPolicy and DependsOn APIs are mutually exclusive" in str(caught.value)


@pytest.mark.cluster(crds=[JobSet])
async def test_the_definition_has_the_defaults_and_columns_of_the_project(client: Client) -> None:
    made = await client.create(DynamicObject(document(failurePolicy={"maxRestarts": 1})))
    job = made.at("spec", "replicatedJobs")[0]
    assert (job["groupName"], job["replicas"]) == ("default", 1)
    assert made.at("spec", "failurePolicy", "restartStrategy") == "Recreate"
