"""What objects count for in quotas."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Quantity
from quarterdeck.api.quota import count_name, evaluator_of, is_ignored, to_text
from quarterdeck.api.quota.amount import increase
from quarterdeck.errors import SchemaError

PODS = evaluator_of("", "pods")
SERVICES = evaluator_of("", "services")
CLAIMS = evaluator_of("", "persistentvolumeclaims")
DEVICES = evaluator_of("resource.k8s.io", "resourceclaims")
NOW = 1_900_000_000.0


def container(name: str = "c", *, requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: dict[str, Any], init: Any = (), status: Any = None, **spec: Any) -> dict[str, Any]:
    spec = {"containers": list(containers) or [container()], "initContainers": list(init), **spec}
    return {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}


def used(document: dict[str, Any], *names: str) -> str:
    usage = PODS.usage(document, NOW)
    return to_text({name: usage[name] for name in names or usage})


def test_a_pod_uses_what_its_containers_request_together() -> None:
    document = pod(
        container("a", requests={"cpu": "200m", "memory": "1Gi"}, limits={"cpu": "1"}),
        container("b", requests={"cpu": "300m", "memory": "512Mi"}, limits={"cpu": "1"}),
    )
    assert used(document) == (
        "count/pods=1,cpu=500m,limits.cpu=2,memory=1536Mi,pods=1,requests.cpu=500m,requests.memory=1536Mi"
    )


def test_init_containers_count_if_they_need_more_than_all_others() -> None:
    document = pod(container(requests={"cpu": "1"}), init=[container("i", requests={"cpu": "3"})])
    assert used(document, "cpu") == "cpu=3"


def test_sidecars_run_beside_everything_that_starts_later() -> None:
    sidecar = container("s", requests={"cpu": "1"}, restartPolicy="Always")
    document = pod(container(requests={"cpu": "2"}), init=[sidecar, container("i", requests={"cpu": "4"})])
    assert used(document, "cpu") == "cpu=5"
    document = pod(container(requests={"cpu": "2"}), init=[container("i", requests={"cpu": "4"}), sidecar])
    assert used(document, "cpu") == "cpu=4"


def test_resources_of_the_pod_as_a_whole_replace_those_of_containers() -> None:
    document = pod(
        container(requests={"cpu": "1", "memory": "1Gi"}),
        resources={"requests": {"cpu": "4"}, "limits": {"cpu": "5"}},
    )
    assert used(document, "cpu", "limits.cpu", "memory") == "cpu=4,limits.cpu=5,memory=1Gi"


def test_overhead_is_added_to_requests_and_to_limits_that_are_set() -> None:
    document = pod(
        container(requests={"cpu": "1"}, limits={"memory": "1Gi"}), overhead={"cpu": "250m", "memory": "1Mi"}
    )
    names = ("cpu", "limits.memory", "memory")
    assert used(document, *names) == "cpu=1250m,limits.memory=1025Mi,memory=1Mi"


def test_huge_pages_extended_resources_and_storage_count() -> None:
    requests = {"hugepages-2Mi": "4Mi", "example.com/gpu": "2", "ephemeral-storage": "1Gi"}
    names = (
        "hugepages-2Mi",
        "requests.hugepages-2Mi",
        "requests.example.com/gpu",
        "requests.ephemeral-storage",
    )
    assert used(pod(container(requests=requests)), *names) == (
        "hugepages-2Mi=4Mi,requests.ephemeral-storage=1Gi,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi"
    )
    assert all(PODS.is_tracked(name) for name in names)
    assert not PODS.is_tracked("example.com/gpu")
    assert not PODS.is_tracked("requests.storage")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_is_only_counted(phase: str) -> None:
    document = pod(container(requests={"cpu": "1"}), status={"phase": phase})
    assert used(document) == "count/pods=1"


def test_a_pod_that_should_be_gone_is_only_counted() -> None:
    document = pod(container(requests={"cpu": "1"}))
    document["metadata"] |= {"deletionTimestamp": "2030-03-17T17:46:20Z", "deletionGracePeriodSeconds": 30}
    assert used(document, "cpu") == "cpu=1"  # within the grace after its time
    document["metadata"]["deletionTimestamp"] = "2030-03-17T17:00:00Z"
    assert used(document) == "count/pods=1"


def test_a_container_that_shrinks_counts_until_it_has_shrunk() -> None:
    status = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    document = pod(container(requests={"cpu": "1"}), status={"containerStatuses": [status]})
    assert used(document, "cpu") == "cpu=3"


def test_a_resize_that_cannot_happen_does_not_count() -> None:
    status = {
        "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
    }
    assert used(pod(container(requests={"cpu": "9"}), status=status), "cpu") == "cpu=1"


def test_limited_cpu_and_memory_must_be_named_by_every_container() -> None:
    document = pod(container("b"), container("a", requests={"cpu": "1"}), init=[container("i")])
    assert PODS.problem(["cpu", "limits.memory", "pods"], document) == (
        "must specify cpu for: b,i; limits.memory for: a,b,i"
    )
    assert PODS.problem(["requests.ephemeral-storage", "pods"], document) == ""
    assert PODS.problem(["cpu"], pod(resources={"requests": {"cpu": "1"}})) == ""


@pytest.mark.parametrize(
    ("scope", "document", "is_in"),
    [
        ({"scopeName": "Terminating"}, pod(activeDeadlineSeconds=0), True),
        ({"scopeName": "Terminating"}, pod(), False),
        ({"scopeName": "NotTerminating"}, pod(), True),
        ({"scopeName": "BestEffort"}, pod(), True),
        ({"scopeName": "BestEffort"}, pod(container(requests={"cpu": "1"})), False),
        ({"scopeName": "NotBestEffort"}, pod(status={"qosClass": "Burstable"}), True),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, pod(priorityClassName="high"), True),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, pod(), False),
        ({"scopeName": "PriorityClass", "operator": "DoesNotExist"}, pod(), True),
        (
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
            pod(priorityClassName="high"),
            True,
        ),
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, pod(), False),
        ({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}, pod(), True),
        ({"scopeName": "VolumeAttributesClass", "operator": "Exists"}, pod(), False),
    ],
)
def test_scopes_choose_pods(scope: dict[str, Any], document: dict[str, Any], is_in: bool) -> None:
    assert PODS.is_in_scope(scope, document) is is_in


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("term", [{"namespaces": ["other"]}, {"namespaceSelector": {}}])
def test_affinity_across_namespaces_is_a_scope(kind: str, term: dict[str, Any]) -> None:
    scope = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
    required = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    preferred = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    assert PODS.is_in_scope(scope, pod(affinity=required))
    assert PODS.is_in_scope(scope, pod(affinity=preferred))
    assert not PODS.is_in_scope(scope, pod(affinity={kind: {}}))


def test_an_operator_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SchemaError, match='"Near" is not a valid scope selector operator'):
        PODS.is_in_scope({"scopeName": "PriorityClass", "operator": "Near"}, pod())


def test_only_what_changes_the_use_of_a_pod_frees_something() -> None:
    running, done = pod(status={"phase": "Running"}), pod(status={"phase": "Succeeded"})
    assert PODS.frees(running, done, NOW)
    assert PODS.frees(running, pod(activeDeadlineSeconds=5), NOW)
    assert not PODS.frees(pod(status={"phase": "Pending"}), running, NOW)
    statuses = [{"name": "c", "resources": {"requests": {"cpu": cpu}}} for cpu in ("1", "2")]
    before, after = (pod(status={"containerStatuses": [each]}) for each in statuses)
    assert PODS.frees(before, after, NOW)
    assert not PODS.frees(pod(), before, NOW)


def test_updates_of_pods_are_charged_only_when_their_scope_or_size_changes() -> None:
    assert PODS.handles("CREATE", "", pod(), None)
    assert PODS.handles("UPDATE", "resize", pod(), pod())
    assert PODS.handles("UPDATE", "", pod(activeDeadlineSeconds=1), pod())
    assert not PODS.handles("UPDATE", "", pod(), pod())
    assert not PODS.handles("UPDATE", "status", pod(), pod())
    assert not PODS.handles("CREATE", "binding", pod(), None)


def service(kind: str, *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": list(ports), **spec}}


@pytest.mark.parametrize(
    ("document", "ports", "balancers"),
    [
        (service("ClusterIP", {"port": 1}), "0", "0"),
        (service("NodePort", {"port": 1}, {"port": 2}), "2", "0"),
        (service("LoadBalancer", {"port": 1}), "1", "1"),
        (
            service(
                "LoadBalancer", {"port": 1}, {"port": 2, "nodePort": 3}, allocateLoadBalancerNodePorts=False
            ),
            "1",
            "1",
        ),
    ],
)
def test_services_use_node_ports_and_load_balancers(
    document: dict[str, Any], ports: str, balancers: str
) -> None:
    assert to_text(SERVICES.usage(document, NOW)) == (
        f"count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}"
    )


def test_a_service_that_changes_its_type_frees_something() -> None:
    assert SERVICES.frees(service("NodePort"), service("ClusterIP"), NOW)
    assert not SERVICES.frees(service("ClusterIP"), service("ExternalName"), NOW)


def claim(storage: str = "1Gi", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"resources": {"requests": {"storage": storage}}, **spec}, "status": status or {}}


def test_claims_use_storage_of_their_class() -> None:
    assert to_text(CLAIMS.usage(claim(storageClassName="gold"), NOW)) == (
        "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,"
        "gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
    )
    assert CLAIMS.is_tracked("gold.storageclass.storage.k8s.io/requests.storage")
    assert not CLAIMS.is_tracked("gold.storageclass.storage.k8s.io/pods")


def test_storage_is_counted_in_whole_bytes() -> None:
    assert CLAIMS.usage(claim("1100m"), NOW)["requests.storage"] == Quantity("2")


def test_what_was_allocated_counts_if_it_is_more() -> None:
    larger = claim(status={"allocatedResources": {"storage": "3Gi"}})
    assert CLAIMS.usage(larger, NOW)["requests.storage"] == Quantity("3Gi")
    assert CLAIMS.frees(larger, claim(), NOW)
    assert CLAIMS.handles("UPDATE", "status", claim(), larger)
    assert not CLAIMS.handles("UPDATE", "status", claim(), claim())


def test_claims_are_chosen_by_the_class_of_their_attributes() -> None:
    scope = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    assert CLAIMS.is_in_scope(scope, claim(volumeAttributesClassName="fast"))
    assert CLAIMS.is_in_scope(scope, claim(status={"currentVolumeAttributesClassName": "fast"}))
    moving = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast"}}
    assert CLAIMS.is_in_scope(scope, claim(status=moving))
    assert not CLAIMS.is_in_scope(scope, claim())
    assert CLAIMS.is_in_scope({"scopeName": "VolumeAttributesClass", "operator": "DoesNotExist"}, claim())


def test_devices_count_by_class_and_of_alternatives_the_largest() -> None:
    document = {
        "spec": {
            "devices": {
                "requests": [
                    {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
                    {
                        "firstAvailable": [
                            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
                            {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                            {"deviceClassName": "tpu", "allocationMode": "All"},
                        ]
                    },
                ]
            }
        }
    }
    assert to_text(DEVICES.usage(document, NOW)) == (
        "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=6,"
        "tpu.deviceclass.resource.k8s.io/devices=32"
    )


def test_any_resource_is_counted_by_its_full_name() -> None:
    assert count_name("apps", "deployments") == "count/deployments.apps"
    assert to_text(evaluator_of("apps", "deployments").usage({}, NOW)) == "count/deployments.apps=1"
    assert to_text(evaluator_of("", "secrets").usage({}, NOW)) == "count/secrets=1,secrets=1"


def test_events_and_reviews_are_not_counted() -> None:
    assert is_ignored("", "events")
    assert is_ignored("events.k8s.io", "events")
    assert is_ignored("authorization.k8s.io", "subjectaccessreviews")
    assert not is_ignored("", "configmaps")


def test_what_shrinks_grows_by_nothing() -> None:
    new, old = {"a": Quantity("1"), "b": Quantity("3")}, {"a": Quantity("2"), "b": Quantity("1")}
    assert to_text(increase(new, old)) == "a=0,b=2"
