"""Every built-in resource has a strategy with the flags of its kind, and none trips over odd documents."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from quarterdeck.apiserver.builtin import strategy_for
from quarterdeck.apiserver.builtin.print import printers
from quarterdeck.apiserver.builtins import facts
from quarterdeck.apiserver.document import shape
from quarterdeck.apiserver.document.typetable import Type, struct_for
from quarterdeck.apiserver.status import StatusError

from .builtin_writepath import copy, create, parse_path, update

Json = dict[str, Any]

CREATED_BY_PUT = {
    "leases",
    "events",
    "endpoints",
    "services",
    "limitranges",
    "runtimeclasses",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
}
NEED_A_VERSION = {
    "leases",
    "poddisruptionbudgets",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "runtimeclasses",
}
WITHOUT_GENERATION = {
    "configmaps",
    "secrets",
    "events",
    "leases",
    "nodes",
    "namespaces",
    "serviceaccounts",
    "services",
    "endpoints",
    "persistentvolumeclaims",
    "horizontalpodautoscalers",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
}
WITH_GENERATION = {
    "pods",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "poddisruptionbudgets",
    "ingresses",
    "networkpolicies",
    "priorityclasses",
    "replicationcontrollers",
}


def resources() -> list[tuple[str, str, str, str, bool, bool]]:
    """(group, version, resource, kind, namespaced, has a status subresource)."""
    return [
        (
            group.group,
            version.version,
            known.name,
            known.kind,
            known.namespaced,
            any(sub.name == "status" for sub in known.subresources),
        )
        for group in facts().groups
        for version in group.versions
        for known in version.resources
        if "create" in known.verbs and "update" in known.verbs and known.name != "customresourcedefinitions"
    ]


@pytest.mark.parametrize("known", resources(), ids=lambda known: f"{known[2]}.{known[0]}")
def test_flags_of_every_kind(known: tuple[str, str, str, str, bool, bool]) -> None:
    group, _, resource, _, _, has_status = known
    strategy = strategy_for(group, resource)
    assert strategy.has_status == has_status
    assert strategy.allows_create_on_update == (resource in CREATED_BY_PUT)
    if resource in NEED_A_VERSION:
        assert not strategy.allows_unconditional_update
    if resource in WITHOUT_GENERATION:
        assert not strategy.has_generation
    if resource in WITH_GENERATION:
        assert strategy.has_generation


@pytest.mark.parametrize(
    ("group", "resource", "taken"),
    [
        ("", "pods", {"labels", "annotations", "finalizers"}),
        ("", "nodes", {"labels", "annotations", "finalizers", "ownerReferences"}),
        ("apps", "deployments", {"annotations", "finalizers", "ownerReferences"}),
        ("batch", "jobs", {"labels", "annotations", "finalizers", "ownerReferences"}),
        ("storage.k8s.io", "volumeattachments", set()),
    ],
)
def test_metadata_that_a_status_write_takes(group: str, resource: str, taken: set[str]) -> None:
    assert strategy_for(group, resource).status_metadata == taken


@pytest.mark.parametrize(
    ("group", "resource", "fields"),
    [
        (
            "",
            "pods",
            {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"},
        ),
        ("", "pods", {"spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"}),
        ("", "nodes", {"spec.unschedulable"}),
        ("", "events", {"involvedObject.kind", "involvedObject.fieldPath", "reason", "source", "type"}),
        ("events.k8s.io", "events", {"regarding.kind", "reason", "reportingController", "type"}),
        ("", "services", {"spec.clusterIP", "spec.type"}),
        ("", "replicationcontrollers", {"status.replicas"}),
        ("", "namespaces", {"status.phase"}),
        ("", "secrets", {"type"}),
        ("batch", "jobs", {"status.successful"}),
        ("certificates.k8s.io", "certificatesigningrequests", {"spec.signerName"}),
    ],
)
def test_selectable_fields(group: str, resource: str, fields: set[str]) -> None:
    assert fields <= set(strategy_for(group, resource).selectable_fields)


def test_selectable_values_are_text() -> None:
    pod = create(
        "/api/v1/namespaces/ns/pods", {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    )
    values = {name: read(pod) for name, read in strategy_for("", "pods").selectable_fields.items()}
    assert values["spec.hostNetwork"] == "false"
    assert values["status.phase"] == "Pending"
    assert values["spec.nodeName"] == ""
    assert all(isinstance(value, str) for value in values.values())
    job: Json = {"status": {}}
    assert strategy_for("batch", "jobs").selectable_fields["status.successful"](job) == "0"


def test_deletion_rules_of_single_kinds() -> None:
    assert strategy_for("batch", "jobs").orphans_by_default
    assert strategy_for("", "replicationcontrollers").orphans_by_default
    assert not strategy_for("apps", "deployments").orphans_by_default
    assert strategy_for("", "pods").deletes_gracefully
    namespaces = strategy_for("", "namespaces")
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert namespaces.is_held({"metadata": {}, "spec": {}})
    assert namespaces.is_held({"metadata": deleted, "spec": {"finalizers": ["kubernetes"]}})
    assert not namespaces.is_held({"metadata": deleted, "spec": {}})


CONTAINER = {"name": "c", "image": "i:1"}
WORDS = (
    *("", "a", "A_b", "x.y/z", "1", "-1", "None", "Always", "In", "Exists", "Localhost", "10.0.0.1", "::1"),
    *("metadata.name", "RollingUpdate", "Indexed", "NodePort", "50%", "*", "*/*", "/a/../b", "Container"),
    *(
        "ExternalName",
        "LoadBalancer",
        "Ready",
        "True",
        "a/b/c",
        "é",
        "cpu",
        "nvidia.com/gpu",
        "hugepages-2Mi",
    ),
)
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": WORDS,
    "int32": (0, 1, -1, 80, 2**31 - 1, -(2**31)),
    "int64": (0, 1, -1, 80, 2**40),
    "bool": (True, False),
    "double": (0.0, 1.5),
    "bytes": ("", "MQ=="),
    "time": ("2024-01-01T00:00:00Z",),
    "microTime": ("2024-01-01T00:00:00.000001Z",),
    "quantity": ("0", "1", "-1", "0.5", "1024Mi", "1.500", "9" * 30),
    "intOrString": (0, 80, -1, "50%", "x"),
}


def build(of: Type, choose: random.Random, depth: int) -> Any:
    """A random value of a type."""
    if of.kind in SCALARS:
        return choose.choice(SCALARS[of.kind])
    if of.kind == "strings":
        return [choose.choice(WORDS)]
    if of.kind == "list" and of.elem is not None:
        return [build(of.elem, choose, depth) for _ in range(choose.choice((0, 1, 2)))] if depth else []
    if of.kind == "map" and of.elem is not None:
        count = choose.choice((0, 1, 2)) if depth else 0
        return {choose.choice(WORDS): build(of.elem, choose, depth) for _ in range(count)}
    if of.kind != "struct" or not depth:
        return {}
    share = choose.choice((0.2, 0.4, 0.7))
    return {
        field.name: build(field.type, choose, depth - 1)
        for field in of.struct.fields.values()
        if field.name != "managedFields" and choose.random() < share
    }


def odd_document(group: str, version: str, kind: str, choose: random.Random) -> Json:
    struct = struct_for(group, version, kind)
    document: Json = build(Type("struct", struct.name), choose, 7)
    meta = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
    for key in ("resourceVersion", "deletionTimestamp"):
        meta.pop(key, None)
    document["metadata"] = {**meta, "name": "x"}
    document["apiVersion"] = f"{group}/{version}" if group else version
    document["kind"] = kind
    return document


@pytest.mark.parametrize("known", resources(), ids=lambda known: f"{known[2]}.{known[0]}")
def test_odd_but_well_shaped_documents_never_break_a_rule(
    known: tuple[str, str, str, str, bool, bool],
) -> None:
    group, version, resource, kind, namespaced, has_status = known
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = f"{base}/namespaces/ns/{resource}" if namespaced else f"{base}/{resource}"
    assert parse_path(path)[3] == resource
    choose = random.Random(resource)
    for _ in range(12):
        first, second = (odd_document(group, version, kind, choose) for _ in range(2))
        try:
            old, _ = shape.normalize(copy(first), struct_for(group, version, kind))
        except shape.ShapeError:
            continue
        strategy_for(group, resource).default(old)
        old["metadata"].update({"uid": "u", "namespace": "ns"})
        subresources = ["", *(["status"] if has_status else [])]
        if resource == "pods":
            subresources += ["resize", "ephemeralcontainers"]
        for subresource in subresources:
            answers(update, path, old, second, subresource)
        answers(create, path, first)
        printers.cells(group, resource, old, datetime.now(UTC))


def answers(write: Any, *arguments: Any) -> None:
    """Accepted or refused, never broken."""
    try:
        write(*arguments)
    except (StatusError, shape.ShapeError):
        return
