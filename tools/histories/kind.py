"""The kinds of objects that histories are about: what is created, and what is changed in them.

Everything here is data chosen by a random generator that is passed in. A change is a merge patch; the other
forms of a write are derived from it. Some are refused on purpose: a refusal must leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """api: the path of the version. make: a new object's content. change: a merge patch of it."""

    api: str
    version: str
    kind: str
    plural: str
    make: Callable[[Random], Json]
    change: Callable[[Random], Json]
    subresources: tuple[str, ...] = ()
    is_custom: bool = False
    is_namespaced: bool = True
    #: the same objects in another version
    sibling: Kind | None = None

    def name(self, name: str) -> str:
        """Of an object: those outside of namespaces are shared with other histories."""
        return name if self.is_namespaced or not name else f"$u-{name}"

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        parts = [
            f"{self.api}/namespaces/{namespace}" if namespace and self.is_namespaced else self.api,
            self.plural,
            self.name(name),
            subresource,
        ]
        return "/".join(part for part in parts if part)


def _metadata(random: Random) -> Json:
    """A change that every kind understands."""
    return random.choice(
        [
            {"labels": {"app": random.choice("abc")}},
            {"labels": {"app": None}},
            {"labels": {"tier": random.choice(["x", "y"])}},
            {"annotations": {"note": random.choice(["one", "two"])}},
            {"annotations": {"note": None}},
            {"finalizers": ["example.com/hold"]},
            {"finalizers": None},
            {"labels": {"bad label": "x"}},
        ]
    )


def _with_metadata(content: Callable[[Random], Json]) -> Callable[[Random], Json]:
    def change(random: Random) -> Json:
        if random.random() < 0.4:
            return {"metadata": _metadata(random)}
        return content(random)

    return change


def _configmap(random: Random) -> Json:
    return {"data": {"k": random.choice("123"), "l": "x"}}


def _configmap_change(random: Random) -> Json:
    return random.choice(
        [
            {"data": {"k": random.choice("1234")}},
            {"data": {"m": random.choice(["y", None])}},
            {"data": None},
            {"binaryData": {"b": "AAE="}},
            {"data": {"bad key": "x"}},
            {"immutable": True},
        ]
    )


def _secret(random: Random) -> Json:
    return {"type": random.choice(["Opaque", "example.com/t"]), "stringData": {"k": random.choice("123")}}


def _secret_change(random: Random) -> Json:
    return random.choice(
        [
            {"stringData": {"k": random.choice("123")}},
            {"data": {"l": random.choice(["eA==", None])}},
            {"type": "Opaque"},
            {"data": {"l": "not base64"}},
        ]
    )


def _container(random: Random) -> Json:
    return {"name": "main", "image": f"image:{random.randint(1, 3)}"}


def _pod(random: Random) -> Json:
    spec: Json = {"containers": [_container(random)]}
    if random.random() < 0.4:
        spec["nodeName"] = "node-1"
    if random.random() < 0.3:
        spec["terminationGracePeriodSeconds"] = random.choice([0, 5])
    return {"spec": spec}


def _pod_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"containers": [_container(random)]}},
            {"spec": {"activeDeadlineSeconds": random.choice([10, 20, 5])}},
            {"spec": {"nodeSelector": {"zone": "z"}}},
            {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
            {"spec": {"containers": []}},
        ]
    )


def _deployment(random: Random) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_container(random)]}}
    return {
        "spec": {
            "replicas": random.randint(0, 3),
            "selector": {"matchLabels": {"app": "a"}},
            "template": template,
        }
    }


def _deployment_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"replicas": random.choice([0, 1, 5, -1, None])}},
            {"spec": {"template": {"spec": {"containers": [_container(random)]}}}},
            {"spec": {"paused": random.choice([True, None])}},
            {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}},
            {"spec": {"selector": {"matchLabels": {"app": "b"}}}},
            {"status": {"replicas": random.randint(0, 3), "observedGeneration": 1}},
        ]
    )


def _service(random: Random) -> Json:
    spec: Json = {"ports": [{"port": random.choice([80, 81])}], "selector": {"app": "a"}}
    kind = random.random()
    if kind < 0.4:
        spec["clusterIP"] = "None"
    elif kind < 0.6:
        spec = {"type": "ExternalName", "externalName": "example.com"}
    return {"spec": spec}


def _service_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"ports": [{"port": random.choice([80, 81, 70000])}]}},
            {"spec": {"selector": {"app": random.choice("ab")}}},
            {"spec": {"sessionAffinity": random.choice(["ClientIP", "None", "Other"])}},
            {"spec": {"clusterIP": "None"}},
        ]
    )


def _lease(random: Random) -> Json:
    return {"spec": {"holderIdentity": random.choice("ab"), "leaseDurationSeconds": 10}}


def _lease_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"holderIdentity": random.choice(["a", "b", None])}},
            {"spec": {"leaseDurationSeconds": random.choice([5, 0, 30])}},
            {"spec": {"leaseTransitions": random.choice([1, 2, -1])}},
        ]
    )


def _role(random: Random) -> Json:
    return {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [random.choice(["get", "list"])]}]}


def _role_change(random: Random) -> Json:
    return random.choice(
        [{"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, {"rules": None}, _role(random)]
    )


def _statefulset(random: Random) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_container(random)]}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec: Json = {"serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template}
    if random.random() < 0.5:
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    return {"spec": spec}


def _statefulset_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"replicas": random.choice([0, 3, None])}},
            {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}},
            {"spec": {"serviceName": "other"}},
            {"spec": {"minReadySeconds": random.choice([1, -1])}},
            {"status": {"replicas": random.randint(0, 3), "currentReplicas": 1}},
        ]
    )


def _job(random: Random) -> Json:
    # with labels: else the real server stores those it fills in with the next write, changed or not
    spec = {"containers": [_container(random)], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": spec}
    return {"spec": {"template": template, "parallelism": random.randint(1, 3)}}


def _job_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"parallelism": random.choice([0, 2, -1])}},
            {"spec": {"suspend": random.choice([True, False])}},
            {"spec": {"completions": 4}},
            {"spec": {"ttlSecondsAfterFinished": random.choice([10, None])}},
            {"status": {"active": random.randint(0, 2)}},
        ]
    )


def _autoscaler(random: Random) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "one"}
    return {"spec": {"scaleTargetRef": target, "maxReplicas": random.randint(1, 5)}}


def _autoscaler_change(random: Random) -> Json:
    metric = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}
    return random.choice(
        [
            {"spec": {"maxReplicas": random.choice([2, 6, 0])}},
            {"spec": {"minReplicas": random.choice([1, 2, 9])}},
            {"spec": {"targetCPUUtilizationPercentage": random.choice([50, 70, None])}},
            {"spec": {"metrics": [{"type": "Resource", "resource": metric}]}},
            {"status": {"currentReplicas": random.randint(0, 3), "desiredReplicas": 1}},
        ]
    )


def _account(random: Random) -> Json:
    return {"automountServiceAccountToken": random.choice([True, False])}


def _account_change(random: Random) -> Json:
    return random.choice(
        [
            {"imagePullSecrets": [{"name": random.choice("ab")}]},
            {"secrets": [{"name": random.choice("ab")}]},
            {"automountServiceAccountToken": None},
        ]
    )


def _budget(random: Random) -> Json:
    return {"spec": {"minAvailable": random.choice([1, "50%"]), "selector": {"matchLabels": {"app": "a"}}}}


def _budget_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"minAvailable": random.choice([2, "200%", -1])}},
            {"spec": {"maxUnavailable": 1}},
            {"spec": {"minAvailable": None, "maxUnavailable": 1}},
            {"spec": {"unhealthyPodEvictionPolicy": random.choice(["AlwaysAllow", "Never"])}},
            {"status": {"currentHealthy": random.randint(0, 2), "observedGeneration": 1}},
        ]
    )


def _network_policy(random: Random) -> Json:
    return {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": random.choice([80, 81])}]}]}}


def _network_policy_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"policyTypes": random.choice([["Egress"], ["Ingress", "Egress"], ["Other"]])}},
            {"spec": {"egress": [{"to": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]}},
            {"spec": {"ingress": None}},
        ]
    )


def _priority(random: Random) -> Json:
    return {"value": random.choice([1, 2]), "description": random.choice("ab")}


def _priority_change(random: Random) -> Json:
    return random.choice([{"description": random.choice("abc")}, {"value": random.choice([1, 2])}])


def _node(random: Random) -> Json:
    return {"spec": {"podCIDR": random.choice(["10.1.0.0/24", "10.2.0.0/24"])}}


def _node_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"unschedulable": random.choice([True, None])}},
            {"spec": {"taints": [{"key": "k", "effect": random.choice(["NoSchedule", "Other"])}]}},
            {"spec": {"providerID": random.choice("ab")}},
            {"status": {"capacity": {"cpu": random.choice(["1", "1500m"])}}},
        ]
    )


def _widget(random: Random) -> Json:
    return {"spec": {"size": random.randint(0, 5), "color": random.choice(["red", "blue"])}}


def _widget_change(random: Random) -> Json:
    return random.choice(
        [
            {"spec": {"size": random.choice([0, 1, 7, -1, None, "big"])}},
            {"spec": {"color": random.choice(["red", "green", None])}},
            {"spec": {"note": random.choice(["n", None])}},
            {"spec": {"parts": [{"name": random.choice("xy"), "count": random.randint(0, 2)}]}},
            {"spec": {"extra": {"deep": 1}}},
            {"status": {"phase": random.choice(["On", "Off", 1])}},
        ]
    )


def _kind(api: str, kind: str, plural: str, make: Any, change: Any, **more: Any) -> Kind:
    version = api.removeprefix("/apis/").removeprefix("/api/")
    return Kind(api, version, kind, plural, make, _with_metadata(change), **more)


CONFIGMAPS: Final = _kind("/api/v1", "ConfigMap", "configmaps", _configmap, _configmap_change)
_BOTH: Final = ("status", "scale")
_AUTOSCALER: Final = (
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    _autoscaler,
    _autoscaler_change,
)
BUILTINS: Final = (
    CONFIGMAPS,
    _kind("/api/v1", "Secret", "secrets", _secret, _secret_change),
    _kind("/api/v1", "Pod", "pods", _pod, _pod_change, subresources=("status",)),
    _kind("/api/v1", "Service", "services", _service, _service_change, subresources=("status",)),
    _kind(
        "/apis/apps/v1",
        "Deployment",
        "deployments",
        _deployment,
        _deployment_change,
        subresources=("status", "scale"),
    ),
    _kind("/apis/coordination.k8s.io/v1", "Lease", "leases", _lease, _lease_change),
    _kind("/apis/rbac.authorization.k8s.io/v1", "Role", "roles", _role, _role_change),
    _kind(
        "/apis/apps/v1", "StatefulSet", "statefulsets", _statefulset, _statefulset_change, subresources=_BOTH
    ),
    _kind("/apis/batch/v1", "Job", "jobs", _job, _job_change, subresources=("status",)),
    _kind(
        "/apis/autoscaling/v2",
        *_AUTOSCALER,
        subresources=("status",),
        sibling=_kind("/apis/autoscaling/v1", *_AUTOSCALER, subresources=("status",)),
    ),
    _kind("/api/v1", "ServiceAccount", "serviceaccounts", _account, _account_change),
    _kind(
        "/apis/policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        _budget,
        _budget_change,
        subresources=("status",),
    ),
    _kind(
        "/apis/networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        _network_policy,
        _network_policy_change,
    ),
    _kind(
        "/apis/rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        _role,
        _role_change,
        is_namespaced=False,
    ),
    _kind(
        "/apis/scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        _priority,
        _priority_change,
        is_namespaced=False,
    ),
    _kind("/api/v1", "Node", "nodes", _node, _node_change, subresources=("status",), is_namespaced=False),
)


def widgets(version: str) -> Kind:
    """The history's own kind in one of its versions; `$u` is the history's name."""
    return _kind(
        f"/apis/$u.example.com/{version}",
        "Widget",
        "widgets",
        _widget,
        _widget_change,
        subresources=("status", "scale"),
        is_custom=True,
    )
