"""Simple validation, which looks at the group alone."""

from __future__ import annotations

import pytest

from .admissionkit import EPHEMERAL, Json, ask, denial, group


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (group("a" * 43), "name must be no more than 42 characters, got 43"),
        (group("a."), "name must match pattern ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        (
            group(nodeType="Cloud"),
            "invalid nodeType: Cloud, must be one of: CloudEphemeral, CloudPermanent, CloudStatic, Static",
        ),
        (group(nodeType="CloudEphemeral"), "spec.cloudInstances is required for nodeType CloudEphemeral"),
        (
            group(nodeType="CloudEphemeral", cloudInstances={"minPerZone": 2}),
            "spec.cloudInstances.minPerZone (2) cannot be greater than maxPerZone (0)",
        ),
        (
            group(nodeType="CloudEphemeral", cloudInstances={}),
            "spec.cloudInstances.classReference.kind is required",
        ),
        (
            group(nodeType="CloudEphemeral", cloudInstances={"classReference": {"kind": "X", "name": "x"}}),
            "invalid classReference.kind: X",
        ),
        (group(cloudInstances={}), "spec.cloudInstances must not be set for nodeType Static"),
        (group(disruptions={"approvalMode": "Never"}), "invalid disruptions.approvalMode: Never"),
        (
            group(disruptions={"approvalMode": "RollingUpdate"}),
            "disruptions.approvalMode RollingUpdate is not available for Static nodes",
        ),
        (
            group(disruptions={"rollingUpdate": {"windows": [{"from": "1:00", "to": "2"}]}}),
            "invalid rollingUpdate window: invalid 'to' time format: 2, expected HH:MM",
        ),
        (
            group(disruptions={"automatic": {"windows": [{"from": "1:00", "to": "2:00", "days": ["X"]}]}}),
            "invalid automatic window: invalid day: X",
        ),
        (group(cri={"type": "Podman"}), "invalid cri.type: Podman"),
        (
            group(cri={"type": "Docker", "notManaged": {}, "containerdV2": {}}),
            "cri.containerdV2 can only be used with cri.type=ContainerdV2",
        ),
    ],
)
def test_simple_validation_answers_in_order(new: Json, message: str) -> None:
    assert denial(new, simple=True) == message


def test_simple_validation_checks_immutability_first_and_lets_deletes_pass() -> None:
    message = "spec.nodeType is immutable and cannot be changed"
    assert denial(group("a."), group("a.", **EPHEMERAL), simple=True) == message
    assert ask(None, group("a."), simple=True, operation="DELETE")["allowed"] is True
