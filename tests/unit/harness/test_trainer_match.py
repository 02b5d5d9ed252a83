"""How trainer cases compare objects: every marker, each once satisfied and once not."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.trainer.match import object_mismatches

Json = dict[str, Any]
CONTAINER = {"name": "node", "env": [{"name": "A", "value": "1"}], "image": "x"}
CONDITIONS = [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]
OWNERS = [{"uid": "1", "kind": "K", "name": "n"}, {"uid": "2", "kind": "K", "name": "m"}]
MANAGED = [{"manager": "trainer", "operation": "Apply"}, {"manager": "kubectl", "operation": "Update"}]


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": True}}, {"a": {"b": True}}),
        ({"containers": [{"name": "node"}]}, {"containers": [{"name": "x"}, CONTAINER]}),
        ({"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 2}, {"containerPort": 1}]}),
        (
            {"volumeMounts": [{"name": "b", "mountPath": "/d"}]},
            {"volumeMounts": [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/d"}]},
        ),
        ({"status": {"conditions": [{"type": "B"}]}}, {"status": {"conditions": CONDITIONS}}),
        ({"metadata": {"ownerReferences": [{"uid": "2"}]}}, {"metadata": {"ownerReferences": OWNERS}}),
        (
            {"envFrom": [{"secretRef": {"name": "s"}}]},
            {"envFrom": [{"prefix": "p"}, {"secretRef": {"name": "s"}}]},
        ),
        ({"args": ["a", "b"]}, {"args": ["a", "b"]}),
        ({"items": []}, {}),
        ({"requests": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": "1000m", "memory": "1024Mi"}}),
        ({"spec": {"minResources": {"cpu": 8}}}, {"spec": {"minResources": {"cpu": "8"}}}),
        ({"$absentPaths": ["status.conditions", "metadata.x"]}, {"status": {"conditions": []}}),
        ({"env": [{"name": "A", "$absent": ["valueFrom"]}]}, {"env": [{"name": "A", "value": "1"}]}),
        ({"containers": [{"name": "node", "$absentEnv": ["B"]}]}, {"containers": [CONTAINER]}),
        ({"$noCondition": "B"}, {"status": {"conditions": CONDITIONS}}),
        ({"$noCondition": "A"}, {}),
        (
            {"$managedBy": {"manager": "trainer", "operation": "Apply"}},
            {"metadata": {"managedFields": MANAGED}},
        ),
        ({"$managedBy": "kubectl"}, {"metadata": {"managedFields": MANAGED}}),
        ({"env": [{"name": "A", "$exactListLength": 1}]}, {"env": [{"name": "A"}]}),
        (
            {"items": {"$setByPath": [{"key": "k", "path": "b"}, {"key": "k", "path": "a"}]}},
            {"items": [{"key": "k", "path": "a", "mode": 1}, {"key": "k", "path": "b"}]},
        ),
    ],
)
def test_matches(expected: Json, actual: Json) -> None:
    assert object_mismatches(expected, actual) == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({"containers": [{"name": "node", "image": "y"}]}, {"containers": [CONTAINER]}),
        ({"containers": [{"name": "other"}]}, {"containers": [CONTAINER]}),
        ({"ports": [{"containerPort": 3}]}, {"ports": [{"containerPort": 2}]}),
        (
            {"volumeMounts": [{"name": "b", "mountPath": "/d"}]},
            {"volumeMounts": [{"name": "b", "mountPath": "/x"}]},
        ),
        (
            {"status": {"conditions": [{"type": "A", "status": "False"}]}},
            {"status": {"conditions": CONDITIONS}},
        ),
        ({"metadata": {"ownerReferences": [{"uid": "3"}]}}, {"metadata": {"ownerReferences": OWNERS}}),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
        ({"args": ["a"]}, {"args": ["a", "b"]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "much"}}),
        ({"value": "1"}, {"value": "1000m"}),
        ({"$absentPaths": ["status.conditions"]}, {"status": {"conditions": CONDITIONS}}),
        ({"env": [{"name": "A", "$absent": ["value"]}]}, {"env": [{"name": "A", "value": "1"}]}),
        ({"containers": [{"name": "node", "$absentEnv": ["A"]}]}, {"containers": [CONTAINER]}),
        ({"$noCondition": "A"}, {"status": {"conditions": CONDITIONS}}),
        (
            {"$managedBy": {"manager": "trainer", "operation": "Update"}},
            {"metadata": {"managedFields": MANAGED}},
        ),
        ({"env": [{"name": "A", "$exactListLength": 1}]}, {"env": [{"name": "A"}, {"name": "B"}]}),
        ({"items": {"$setByPath": [{"key": "k", "path": "b"}]}}, {"items": [{"key": "k", "path": "a"}]}),
        ({"items": {"$setByPath": [{"key": "k", "path": "a"}]}}, {"items": [{"path": "a", "key": "l"}]}),
        ({"$riddle": 1}, {}),
        ({"a": "$riddle:1"}, {"a": "x"}),
    ],
)
def test_does_not_match(expected: Json, actual: Json) -> None:
    assert object_mismatches(expected, actual) != []


def pair(curve: ec.EllipticCurve) -> tuple[str, str]:
    key = ec.generate_private_key(curve)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return base64.b64encode(private).decode(), base64.b64encode(public + b"\n").decode()


EXPECTED = {"k": "$pem:EC PRIVATE KEY:P-521", "p": "$authorizedKey:ecdsa-sha2-nistp521:matches:k"}


def test_a_pair_of_keys_matches() -> None:
    private, public = pair(ec.SECP521R1())
    assert object_mismatches(EXPECTED, {"k": private, "p": public}) == []


def test_keys_that_are_not_what_they_should_be() -> None:
    private, public = pair(ec.SECP521R1())
    other, _ = pair(ec.SECP521R1())
    short, short_public = pair(ec.SECP256R1())
    for document in (
        {"k": other, "p": public},
        {"k": short, "p": short_public},
        {"k": public, "p": private},
        {"k": "no base64", "p": public},
        {"k": private, "p": base64.b64encode(base64.b64decode(public) * 2).decode()},
        {"p": public},
    ):
        assert object_mismatches(EXPECTED, document) != []
