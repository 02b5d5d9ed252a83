"""Pods: defaults, quality of service, binding, eviction, deletion."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.builtin import strategy_for
from quarterdeck.apiserver.builtin.pod import eviction
from quarterdeck.apiserver.builtin.pod import subresource as podsubresource
from quarterdeck.apiserver.builtin.pod.defaults import pull_policy
from quarterdeck.apiserver.builtin.pod.pod import grace_period
from quarterdeck.apiserver.builtin.pod.resources import aggregate_requests, pod_requests, qos_class
from quarterdeck.apiserver.status import StatusError
from tests.unit.apiserver.builtin.builtin_writepath import NOW, create, update

Json = dict[str, Any]
PODS = "/api/v1/namespaces/ns/pods"


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def container(name: str = "c", **fields: Any) -> Json:
    return {"name": name, "image": "i:1", **fields}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("reg.io:5000/a", "Always"),
        ("reg.io:5000/a:v1", "IfNotPresent"),
        ("a:latest@sha256:" + "0" * 64, "Always"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
        ("UPPER/x", "Always"),
        ("", "IfNotPresent"),
        ("a" * 1000, "IfNotPresent"),
    ],
)
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_limits_become_requests_and_quantities_are_canonical() -> None:
    made = create(PODS, pod(containers=[container(resources={"limits": {"cpu": "0.5", "memory": "1024Mi"}})]))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "500m", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_defaulting_twice_changes_nothing() -> None:
    made = create(PODS, pod(volumes=[{"name": "v"}], hostNetwork=True))
    strategy = strategy_for("", "pods")
    again = {**made, "spec": dict(made["spec"])}
    strategy.default(again)
    assert again == made


def test_pod_level_requests_come_from_the_containers_then_from_the_limits() -> None:
    made = create(
        PODS,
        pod(
            containers=[container(resources={"requests": {"cpu": "1"}})],
            resources={"limits": {"cpu": "2", "memory": "1Gi"}},
        ),
    )
    assert made["spec"]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_gated_pods_say_so() -> None:
    made = create(PODS, pod(schedulingGates=[{"name": "ex.io/g"}]))
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": NOW,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]


def test_alpha_fields_disappear() -> None:
    made = create(
        PODS,
        pod(schedulingGroup={"podGroupName": "x"}, containers=[container(lifecycle={"stopSignal": "S"})]),
    )
    assert "schedulingGroup" not in made["spec"]
    assert "lifecycle" not in made["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, {}], "Burstable"),
        ([{"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}], "Burstable"),
    ],
)
def test_quality_of_service(containers: list[Json], expected: str) -> None:
    assert qos_class({"containers": [{"resources": item} for item in containers]}) == expected


def test_requests_count_init_containers_by_their_peak_and_sidecars_throughout() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
        ],
        "overhead": {"cpu": "100m"},
    }
    totals = {name: item.text for name, item in aggregate_requests(spec).items()}
    assert totals == {"cpu": "3500m", "memory": "1Gi"}
    assert pod_requests(spec)["cpu"].text == "3600m"
    assert pod_requests({**spec, "resources": {"requests": {"cpu": "8"}}})["cpu"].text == "8100m"


def bound(name: str = "p", node: str = "n1", **meta: Any) -> Json:
    return {"metadata": {"name": name, **meta}, "target": {"kind": "Node", "name": node}}


def test_binding_assigns_the_node_and_copies_metadata() -> None:
    made = create(PODS, pod())
    made["status"]["nominatedNodeName"] = "n0"
    podsubresource.bind(made, bound(annotations={"a": "b"}, labels={"c": "d"}), NOW)
    assert made["spec"]["nodeName"] == "n1"
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["metadata"]["labels"] == {"c": "d"}
    assert "nominatedNodeName" not in made["status"]
    [condition] = made["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"nodeName": "n0"}}, 'pod p is already assigned to node "n0"'),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, "pod p has non-empty .spec.schedulingGates"),
        (
            {"metadata": {"deletionTimestamp": NOW}},
            "pod p is being deleted, cannot be assigned to a host",
        ),
    ],
)
def test_binding_is_refused_with_a_conflict(change: Json, why: str) -> None:
    made = create(PODS, pod())
    for key, fields in change.items():
        made[key].update(fields)
    with pytest.raises(StatusError) as caught:
        podsubresource.bind(made, bound(), NOW)
    assert caught.value.code == 409
    assert caught.value.message == f'Operation cannot be fulfilled on pods/binding "p": {why}'


def test_a_malformed_binding_is_refused() -> None:
    with pytest.raises(StatusError, match="name in URL does not match name in Binding object"):
        podsubresource.validate_binding("q", bound())
    with pytest.raises(StatusError) as caught:
        podsubresource.validate_binding("p", {"metadata": {"name": "p"}, "target": {"kind": "Pod"}})
    assert caught.value.message == (
        '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", '
        "target.name: Required value]"
    )


@pytest.mark.parametrize(
    ("spec", "phase", "requested", "expected"),
    [
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", None, 7),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", 3, 3),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Running", 0, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
        ({"terminationGracePeriodSeconds": 7}, "Pending", 30, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Succeeded", None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Failed", 9, 0),
    ],
)
def test_grace_period(spec: Json, phase: str, requested: int | None, expected: int) -> None:
    made = {"metadata": {}, "spec": spec, "status": {"phase": phase}}
    assert grace_period(made, requested) == expected
    assert strategy_for("", "pods").grace_period(made, requested) == expected


def budget(**status: Any) -> Json:
    return {
        "metadata": {"name": "pdb", "generation": 1},
        "spec": {"selector": {"matchLabels": {"a": "b"}}},
        "status": {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, **status},
    }


def running(ready: bool = True) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "status": {"phase": "Running", "conditions": conditions},
    }


def test_an_exhausted_budget_refuses_eviction() -> None:
    with pytest.raises(StatusError) as caught:
        eviction.check_budgets(running(), [budget(disruptionsAllowed=0)], NOW)
    assert caught.value.code == 429
    status = caught.value.to_status()
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["reason"] == "TooManyRequests"
    assert status["details"] == {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget pdb needs 1 healthy pods and has 1 currently",
            }
        ]
    }
    assert list(caught.value.headers) == []


def test_eviction_takes_one_disruption() -> None:
    changed = eviction.check_budgets(running(), [budget(disruptionsAllowed=2)], NOW)
    assert changed is not None
    assert changed["status"]["disruptionsAllowed"] == 1
    assert changed["status"]["disruptedPods"] == {"p": NOW}
    last = eviction.check_budgets(running(), [budget(disruptionsAllowed=1)], NOW)
    assert last is not None
    [condition] = last["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")


def test_a_budget_behind_its_spec_asks_to_come_back() -> None:
    stale = budget(disruptionsAllowed=5)
    stale["metadata"]["generation"] = 2
    with pytest.raises(StatusError) as caught:
        eviction.check_budgets(running(), [stale], NOW)
    assert caught.value.retry_after == 10


@pytest.mark.parametrize(
    "evicted",
    [
        {"metadata": {"name": "p", "labels": {"a": "b"}}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "p", "labels": {"a": "b"}}, "status": {"phase": "Succeeded"}},
        {
            "metadata": {"name": "p", "labels": {"a": "b"}, "deletionTimestamp": NOW},
            "status": {"phase": "Running"},
        },
        {"metadata": {"name": "p", "labels": {"c": "d"}}, "status": {"phase": "Running"}},
    ],
)
def test_pods_that_no_budget_protects_go(evicted: Json) -> None:
    assert eviction.check_budgets(evicted, [budget(disruptionsAllowed=0)], NOW) is None


def test_an_unready_pod_goes_when_enough_others_are_healthy() -> None:
    assert eviction.check_budgets(running(ready=False), [budget(disruptionsAllowed=0)], NOW) is None
    always = budget(disruptionsAllowed=0, currentHealthy=0)
    always["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    assert eviction.check_budgets(running(ready=False), [always], NOW) is None


def test_two_budgets_for_one_pod_are_not_supported() -> None:
    with pytest.raises(StatusError, match="more than one PodDisruptionBudget") as caught:
        eviction.check_budgets(running(), [budget(), budget()], NOW)
    assert caught.value.code == 500


def test_an_evicted_pod_is_marked_once() -> None:
    made = running()
    assert eviction.mark_evicted(made, NOW) is True
    assert eviction.mark_evicted(made, "2027-01-01T00:00:00Z") is False
    assert made["status"]["conditions"][-1]["message"] == "Eviction API: evicting"


def test_a_finished_container_does_not_run_again() -> None:
    made = create(PODS, pod(restartPolicy="Never"))
    ended = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    old = {**made, "status": {**made["status"]}}
    old["status"]["containerStatuses"] = [{**ended, "state": {"terminated": {"exitCode": 0}}}]
    new = {**made, "status": {**made["status"], "containerStatuses": [{**ended, "state": {"running": {}}}]}}
    with pytest.raises(StatusError, match="may not be transitioned to non-terminated state"):
        update(PODS, old, new, "status")


def test_ephemeral_containers_are_added_and_stay() -> None:
    made = create(PODS, pod())
    debugger = {"name": "e", "image": "x"}
    wanted = {**made, "spec": {**made["spec"], "ephemeralContainers": [debugger], "nodeName": "ignored"}}
    changed = update(PODS, made, wanted, "ephemeralcontainers")
    assert [item["name"] for item in changed["spec"]["ephemeralContainers"]] == ["e"]
    assert "nodeName" not in changed["spec"]
    assert changed["metadata"]["generation"] == 2
    with pytest.raises(StatusError, match='existing ephemeral containers "e" may not be removed'):
        update(PODS, changed, made, "ephemeralcontainers")


def test_resize_touches_nothing_but_resources() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    made = create(PODS, pod(containers=[container(resources=resources)]))
    bigger = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    wanted = {**made, "spec": {**made["spec"], "containers": [container(image="new", resources=bigger)]}}
    changed = update(PODS, made, wanted, "resize")
    assert changed["spec"]["containers"][0]["image"] == "i:1"
    assert changed["spec"]["containers"][0]["resources"] == bigger
    assert changed["metadata"]["generation"] == 2
