"""The generated definition is the one Deckhouse ships, field by field where it matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.controllers.registration import TARGET
from quarterdeck.operators.nodegroup.types import definition
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, policy_webhook, simple_webhook
from quarterdeck.runtime.webhook import UrlTarget, webhook_configurations

from .clusterfake import FakeCluster

DEFINITION = definition()
VERSIONS = {version["name"]: version for version in DEFINITION["spec"]["versions"]}


def at(version: str, path: str) -> Any:
    node = VERSIONS[version]["schema"]["openAPIV3Schema"]
    for step in path.split("."):
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


def _undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if not field.get("description", "").endswith("."):
            yield f"{path}.{name}"
        yield from _undescribed(field, f"{path}.{name}")
    for nested in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(nested, dict):
            yield from _undescribed(nested, f"{path}[]")


@pytest.mark.parametrize("version", ["v1", "v1alpha1", "v1alpha2"])
def test_explain_has_a_sentence_for_each_field(version: str) -> None:
    schema = VERSIONS[version]["schema"]["openAPIV3Schema"]
    # What metadata means is the same for every kind, and the server says it.
    found = [path for path in _undescribed(schema, "") if not path.startswith(".metadata")]
    assert schema["description"]
    assert not found


def test_names_scope_and_versions() -> None:
    assert DEFINITION["metadata"] == {
        "name": "nodegroups.deckhouse.io",
        "labels": {"heritage": "deckhouse", "module": "node-manager"},
    }
    assert DEFINITION["spec"]["names"] == {
        "kind": "NodeGroup",
        "listKind": "NodeGroupList",
        "plural": "nodegroups",
        "shortNames": ["ng"],
        "singular": "nodegroup",
    }
    assert DEFINITION["spec"]["scope"] == "Cluster"
    assert "conversion" not in DEFINITION["spec"]
    stored = {name: (version["served"], version["storage"]) for name, version in VERSIONS.items()}
    assert stored == {"v1alpha1": (True, False), "v1alpha2": (True, False), "v1": (True, True)}
    for version in VERSIONS.values():
        assert version["subresources"] == {"status": {}}
        assert version["schema"]["openAPIV3Schema"]["required"] == ["spec"]


def test_names_of_objects_leave_room_for_hashes() -> None:
    for version in VERSIONS:
        name = at(version, "metadata.name")
        assert (name["pattern"], name["maxLength"]) == (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 42)


def test_printer_columns() -> None:
    shared = ["Type", "Ready", "Nodes", "UpToDate", "Instances", "Desired", "Min", "Max"]
    shared += ["Standby", "Status", "Age"]
    for version in ("v1alpha1", "v1alpha2"):
        columns = VERSIONS[version]["additionalPrinterColumns"]
        assert [column["name"] for column in columns] == shared
    columns = VERSIONS["v1"]["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == [*shared, "Synced", "Observed", "Processed"]
    assert [column.get("priority", 0) for column in columns[-3:]] == [0, 1, 1]


def test_only_v1_defaults_the_kubelet() -> None:
    assert at("v1", "spec.kubelet")["default"] == {}
    assert at("v1", "spec.kubelet.resourceReservation")["default"] == {}
    assert at("v1", "spec.kubelet.resourceReservation.mode")["default"] == "Auto"
    for version in ("v1alpha1", "v1alpha2"):
        assert "default" not in at(version, "spec.kubelet")
        assert at(version, "spec.kubelet.containerLogMaxFiles")["default"] == 4


def test_fields_that_differ_between_versions() -> None:
    assert at("v1alpha1", "spec.nodeType")["enum"] == ["Cloud", "Static", "Hybrid"]
    assert at("v1", "spec.nodeType")["enum"] == list(names.NODE_TYPES)
    assert set(at("v1alpha1", "spec.cri")["properties"]) == {"type", "containerd"}
    assert "oneOf" not in at("v1alpha1", "spec.cri")
    assert len(at("v1alpha2", "spec.cri")["oneOf"]) == 4
    assert "oneOf" not in at("v1alpha2", "spec")
    assert len(at("v1", "spec")["oneOf"]) == 3
    assert at("v1", "spec.cloudInstances")["required"] == ["classReference", "maxPerZone", "minPerZone"]


def test_the_static_selector_is_atomic_and_immutable() -> None:
    rules = at("v1", "spec.staticInstances")["x-kubernetes-validations"]
    assert rules[0]["rule"] == "!has(oldSelf.labelSelector) || self.labelSelector == oldSelf.labelSelector"
    assert at("v1", "spec.staticInstances.labelSelector")["x-kubernetes-map-type"] == "atomic"


def test_the_conversion_stanza_names_the_service() -> None:
    stanza = definition(TARGET.with_bundle(b"pem").conversion())["spec"]["conversion"]
    assert stanza == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "namespace": "d8-cloud-instance-manager",
                    "name": "node-controller-webhook",
                    "path": "/convert",
                    "port": 443,
                },
                "caBundle": "cGVt",
            },
        },
    }


def test_both_webhooks_are_registered_for_all_versions_and_fail_closed() -> None:
    cluster = ClusterReader(FakeCluster())
    hooks = (simple_webhook(cluster), policy_webhook(cluster))
    target = UrlTarget("https://127.0.0.1:9443", b"pem")
    (made,) = webhook_configurations(names.VALIDATING_CONFIGURATION, hooks, target, labels=names.CRD_LABELS)
    configuration = made.to_dict()
    assert configuration["metadata"]["labels"] == names.CRD_LABELS
    simple, policy = configuration["webhooks"]
    assert configuration["metadata"]["name"] == "node-controller-validating"
    assert simple["name"] == "vnodegroup.deckhouse.io"
    assert simple["clientConfig"]["url"] == "https://127.0.0.1:9443/validate-deckhouse-io-v1-nodegroup"
    assert simple["rules"][0]["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert policy["name"] == "nodegroup-policy.deckhouse.io"
    assert policy["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    for webhook in (simple, policy):
        assert webhook["rules"][0]["apiVersions"] == ["*"]
        assert (webhook["failurePolicy"], webhook["matchPolicy"]) == ("Fail", "Equivalent")
        assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 10)
