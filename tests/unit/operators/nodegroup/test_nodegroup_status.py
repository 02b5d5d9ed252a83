"""The status of a group, and the nodes an embedded cluster plays for it."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.capacity import capacity_error, starts_from_zero
from quarterdeck.operators.nodegroup.logic.simulation import (
    NodePlan,
    SimulatedNode,
    adopts,
    node_document,
    plan_nodes,
)
from quarterdeck.operators.nodegroup.logic.status import Facts, MachineFailure, NodeFacts, Outcome, compute

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T01:00:00Z"
READY = NodeFacts("n1", is_ready=True)


def group(kind: str = "CloudEphemeral", status: Json | None = None, **instances: Any) -> Json:
    spec: Json = {"nodeType": kind}
    if kind == "CloudEphemeral":
        reference = {"kind": "AWSInstanceClass", "name": "worker"}
        spec["cloudInstances"] = {"minPerZone": 1, "maxPerZone": 2, "classReference": reference, **instances}
    document: Json = {"apiVersion": names.V1, "kind": names.KIND, "metadata": {"name": "w"}, "spec": spec}
    return {**document, "status": status} if status is not None else document


def status_of(**facts: Any) -> Json:
    return outcome_of(**facts).status


def outcome_of(**facts: Any) -> Outcome:
    return compute(Facts(**{"group": group(), "now": NOW, **facts}))


def conditions(status: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_bounds_are_per_zone_and_desired_is_at_least_the_minimum() -> None:
    status = status_of(group=group(zones=["a", "b"]), replicas=1, machines=3)
    assert (status["min"], status["max"], status["desired"], status["instances"]) == (2, 4, 2, 3)
    status = status_of(provider_zones=["a", "b", "c"], replicas=5)
    assert (status["min"], status["max"], status["desired"]) == (3, 6, 5)
    assert status_of()["max"] == 0


def test_other_types_have_no_machines_and_no_scaling_condition() -> None:
    failure = MachineFailure(name="m", description="quota")
    status = status_of(group=group("CloudStatic"), replicas=5, machines=3, failures=[failure])
    assert [status[key] for key in ("desired", "min", "max", "instances")] == [0, 0, 0, 0]
    assert "Scaling" not in conditions(status)
    assert "lastMachineFailures" not in status
    assert status["conditionSummary"] == {"statusMessage": "", "ready": "True"}


def test_a_static_group_is_ready_when_all_its_nodes_are() -> None:
    one = group("Static")
    assert conditions(status_of(group=one, nodes=[READY]))["Ready"] == "True"
    assert conditions(status_of(group=one, nodes=[READY, NodeFacts("n2")]))["Ready"] == "False"


def test_new_nodes_count_as_ready_for_five_minutes_and_unschedulable_ones_never() -> None:
    zoned = group(zones=["a"])
    assert conditions(status_of(group=zoned, nodes=[NodeFacts("n", age=299.0)]))["Ready"] == "True"
    assert conditions(status_of(group=zoned, nodes=[NodeFacts("n", age=300.0)]))["Ready"] == "False"
    cordoned = NodeFacts("n", is_ready=True, is_unschedulable=True)
    assert conditions(status_of(group=zoned, nodes=[cordoned]))["Ready"] == "False"


def test_nodes_are_up_to_date_only_if_the_checksum_is_known() -> None:
    node = NodeFacts("n", annotations={names.CONFIGURATION_CHECKSUM: "abc"})
    assert status_of(nodes=[node], checksum="abc")["upToDate"] == 1
    assert status_of(nodes=[NodeFacts("n", annotations={names.CONFIGURATION_CHECKSUM: ""})])["upToDate"] == 0


def test_updating_and_waiting_follow_annotations() -> None:
    required = NodeFacts("n", annotations={names.DISRUPTION_REQUIRED: ""})
    found = conditions(status_of(nodes=[required]))
    assert (found["Updating"], found["WaitingForDisruptiveApproval"]) == ("True", "True")


@pytest.mark.parametrize(
    ("facts", "is_scaling"),
    [
        ({"nodes": [READY], "machines": 1}, "False"),
        ({"nodes": [], "machines": 1}, "True"),
        ({"nodes": [READY], "machines": 2}, "True"),
        ({"nodes": [NodeFacts("n", taints=[names.TO_BE_DELETED_TAINT])], "machines": 1}, "True"),
    ],
)
def test_scaling_means_more_or_fewer_machines_than_wanted(facts: Json, is_scaling: str) -> None:
    assert conditions(status_of(group=group(zones=["a"]), **facts))["Scaling"] == is_scaling


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"class_kind": "GCPInstanceClass"}, "Invalid classReference.kind 'AWSInstanceClass'. Expected 'GCP"),
        (
            {"class_kind": "AWSInstanceClass", "has_class": False},
            "Instance class 'worker' of type 'AWSInstanceClass' not found.",
        ),
        ({"capacity_error": "no capacity"}, "no capacity"),
        (
            {"provider_zones": ["c", "b"]},
            "Invalid zones specified: [a z]. Available zones: [b c]. Please update",
        ),
        ({"has_class": False}, ""),
    ],
)
def test_references_are_checked_in_order(facts: Json, error: str) -> None:
    found = status_of(group=group(zones=["a", "b", "z"] if "provider_zones" in facts else []), **facts)
    assert found["error"].startswith(error)
    assert bool(found["error"]) is bool(error)
    assert conditions(found)["Error"] == ("True" if error else "False")


def test_failures_are_sorted_and_the_newest_is_the_error() -> None:
    old = MachineFailure(name="m1", description="quota", time="2025-01-01T00:00:00Z")
    new = MachineFailure(name="m2", description="no subnet", time="2025-02-01T00:00:00Z", state="Processing")
    silent = MachineFailure(name="m3", time="2025-03-01T00:00:00Z")
    outcome = outcome_of(failures=[new, silent, old], capacity_error="full")
    failures = outcome.status["lastMachineFailures"]
    assert [one["name"] for one in failures] == ["m1", "m2"]
    assert [one["lastOperation"]["state"] for one in failures] == ["Failed", "Processing"]
    assert failures[0]["lastOperation"]["type"] == "Create"
    error = next(one for one in outcome.status["conditions"] if one["type"] == "Error")
    assert error["message"] == "full|no subnet"
    assert outcome.status["conditionSummary"] == {
        "statusMessage": "Machine creation failed. Check events for details.",
        "ready": "False",
    }
    assert outcome.notice is not None
    assert (outcome.notice.reason, outcome.notice.message) == ("MachineFailed", "full|no subnet")


def with_error(message: str) -> Json:
    error = {"type": "Error", "status": "True", "message": message, "lastTransitionTime": NOW}
    return {"conditions": [error]}


def test_a_frozen_deployment_keeps_the_previous_error() -> None:
    frozen = status_of(group=group(status=with_error("quota")), is_frozen=True)
    assert next(one for one in frozen["conditions"] if one["type"] == "Error")["message"] == "quota"
    thawed = status_of(group=group(status=with_error("quota")))
    assert conditions(thawed)["Error"] == "False"


def test_a_new_attempt_does_not_hide_the_error_before_it() -> None:
    started = [MachineFailure(description=names.MACHINE_CREATION_STARTED)]
    kept = status_of(group=group(status=with_error("quota")), failures=started)
    assert next(one for one in kept["conditions"] if one["type"] == "Error")["message"] == "quota"
    outcome = outcome_of(failures=started)
    assert outcome.notice is not None
    assert (outcome.notice.reason, outcome.notice.is_warning) == ("MachineCreating", False)


def test_the_same_error_is_told_once() -> None:
    failures = [MachineFailure(description="x" * 2000)]
    first = outcome_of(failures=failures)
    assert first.notice is not None
    assert len(first.notice.message) == 1024
    assert outcome_of(group=group(status=first.status), failures=failures).notice is None


def test_a_repeated_attempt_behind_a_kept_error_is_told_once() -> None:
    started = [MachineFailure(description=names.MACHINE_CREATION_STARTED)]
    first = outcome_of(group=group(status=with_error("quota")), failures=started)
    assert first.notice is not None
    again = outcome_of(group=group(status=first.status), failures=started)
    assert again.notice is None
    kept = next(one for one in again.status["conditions"] if one["type"] == "Error")
    assert kept["message"] == "quota"


def test_conditions_come_in_their_order() -> None:
    wanted = ["Ready", "Updating", "WaitingForDisruptiveApproval", "Error", "Scaling"]
    assert list(conditions(status_of())) == wanted
    assert list(conditions(status_of(group=group("Static")))) == wanted[:4]


def test_any_error_text_is_summed_up_in_one_line() -> None:
    status = status_of(class_kind="GCPInstanceClass")
    assert status["conditionSummary"]["ready"] == "False"
    assert status["error"].startswith("Invalid classReference.kind")
    fine = status_of(group=group(status=status))
    assert fine["conditionSummary"] == {"statusMessage": "", "ready": "True"}
    assert fine["error"] == ""


def test_failures_without_description_are_left_out_and_the_newest_is_last() -> None:
    failures = [
        MachineFailure(name="b", description="second", time="2026-01-01T00:00:02Z", state="Processing"),
        MachineFailure(name="c", time="2026-01-01T00:00:03Z"),
        MachineFailure(name="a", description="first", time="2026-01-01T00:00:01Z", type="Delete"),
    ]
    status = status_of(failures=failures)
    told = [(one["name"], one["lastOperation"]) for one in status["lastMachineFailures"]]
    assert [name for name, _ in told] == ["a", "b"]
    assert [(one["state"], one["type"]) for _, one in told] == [
        ("Failed", "Delete"),
        ("Processing", "Create"),
    ]
    assert next(one for one in status["conditions"] if one["type"] == "Error")["message"] == "second"


def test_a_second_look_changes_nothing() -> None:
    first = status_of(nodes=[READY], machines=1)
    assert status_of(group=group(status=first), now=LATER, nodes=[READY], machines=1) == first


def test_transition_times_move_only_with_status_or_message() -> None:
    first = status_of(group=group(zones=["a"]))
    second = status_of(group=group(zones=["a"], status=first), now=LATER, nodes=[READY])
    moved = {one["type"]: one["lastTransitionTime"] for one in second["conditions"]}
    assert (moved["Ready"], moved["Scaling"], moved["Updating"]) == (LATER, LATER, NOW)


def test_the_checkpoint_moves_with_spec_and_rollout_id() -> None:
    first = status_of()
    changed = group(status=first)
    changed["metadata"]["annotations"] = {names.MANUAL_ROLLOUT_ID: "2"}
    second = compute(Facts(group=changed, now=LATER)).status
    assert first["deckhouse"]["synced"] == "True"
    assert first["deckhouse"]["observed"] == first["deckhouse"]["processed"]
    assert second["deckhouse"]["processed"]["lastTimestamp"] == LATER
    assert second["deckhouse"]["processed"]["checkSum"] != first["deckhouse"]["processed"]["checkSum"]


def test_the_engine_is_never_overwritten_once_known_and_foreign_fields_stay() -> None:
    status = status_of(group=group(status={"engine": "MCM", "standby": 3}), engine="CAPI")
    assert (status["engine"], status["standby"]) == ("MCM", 3)
    assert "engine" not in status_of()
    assert status_of(group=group(status={"engine": "None"}), engine="CAPI")["engine"] == "CAPI"


def test_conditions_of_others_stay_and_own_ones_that_no_longer_apply_go() -> None:
    others = {"type": "NodeNameTaken", "status": "True", "message": "x", "lastTransitionTime": NOW}
    stale = {"type": "Scaling", "status": "True", "lastTransitionTime": NOW}
    static = group(status={"conditions": [others, stale]})
    static["spec"]["nodeType"] = names.STATIC
    conditions = status_of(group=static)["conditions"]
    assert conditions[-1] == others
    assert "Scaling" not in [each["type"] for each in conditions]


def test_the_version_of_the_cluster_is_that_of_the_group() -> None:
    assert status_of(kubernetes_version="1.33")["kubernetesVersion"] == "1.33"
    assert status_of(group=group(status={"kubernetesVersion": "1.32"}))["kubernetesVersion"] == "1.32"


@pytest.mark.parametrize(
    ("kind", "spec", "is_known"),
    [
        ("AWSInstanceClass", {"instanceType": "m5.large"}, True),
        ("AWSInstanceClass", {"instanceType": "m9.huge"}, False),
        ("AWSInstanceClass", {"instanceType": "m9.huge", "capacity": {"cpu": 4}}, True),
        ("AWSInstanceClass", {}, False),
        ("YandexInstanceClass", {"cores": 4, "memory": 8192}, True),
        ("YandexInstanceClass", {"cores": 4}, False),
        ("DVPInstanceClass", {"virtualMachine": {"cpu": {"cores": 4}, "memory": {"size": "8Gi"}}}, True),
        ("DVPInstanceClass", {"virtualMachine": {"cpu": {"cores": 4}}}, False),
        ("DVPInstanceClass", {"virtualMachine": "large"}, False),
        ("DynamixInstanceClass", {"numCPUs": 4, "memory": 8192}, True),
        ("DynamixInstanceClass", {"memory": 8192}, False),
        ("HuaweiCloudInstanceClass", {"flavorName": "m5.large"}, True),
        ("HuaweiCloudInstanceClass", {"flavorName": "s6"}, False),
    ],
)
def test_machines_of_unknown_size_cannot_be_the_first_of_a_group(
    kind: str, spec: Json, is_known: bool
) -> None:
    error = capacity_error(kind, "gpu", spec, {"m5.large"})
    wanted = (
        f"{kind} capacity is not set and instance type could not be found in the built-it types. "
        f"ScaleFromZero would not work until you set a capacity spec into the {kind}/gpu"
    )
    assert error == ("" if is_known else wanted)


@pytest.mark.parametrize(
    ("low", "high", "is_from_zero"), [(0, 1, True), (0, 0, False), (1, 2, False), (None, 2, False)]
)
def test_only_groups_that_may_be_empty_and_may_grow_start_from_zero(
    low: int | None, high: int, is_from_zero: bool
) -> None:
    one = group(minPerZone=low, maxPerZone=high)
    assert starts_from_zero(one) is is_from_zero
    assert starts_from_zero(group("Static")) is False


def nodes(zone: str, *numbers: int) -> list[SimulatedNode]:
    return [SimulatedNode(zone, f"w-{zone}-{number}") for number in numbers]


def test_missing_nodes_are_created_up_to_the_minimum_with_free_numbers() -> None:
    plan = plan_nodes(group(zones=["a", "b"], minPerZone=2, maxPerZone=3), nodes("a", 1), [])
    assert plan.create == [*nodes("a", 0), *nodes("b", 0, 1)]
    assert plan.remove == []


def test_nodes_inside_the_range_are_left_alone_and_those_beyond_it_go() -> None:
    one = group(zones=["a"], minPerZone=1, maxPerZone=2)
    assert plan_nodes(one, nodes("a", 0, 1), []) == NodePlan([], [])
    assert plan_nodes(one, nodes("a", 0, 1, 2), []).remove == nodes("a", 2)
    assert plan_nodes(one, [*nodes("a", 0), *nodes("b", 0)], []).remove == nodes("b", 0)


def test_zones_of_the_provider_are_used_where_the_group_names_none() -> None:
    assert plan_nodes(group(), [], ["x", "y"]).create == [*nodes("x", 0), *nodes("y", 0)]
    assert plan_nodes(group(), [], []).create == [SimulatedNode("", "w-0")]


def test_only_ephemeral_groups_get_nodes() -> None:
    assert plan_nodes(group("CloudPermanent"), nodes("a", 0), ["a"]) == NodePlan()


def test_a_simulated_node_carries_the_template() -> None:
    one = group()
    one["spec"]["nodeTemplate"] = {"labels": {"role": "gpu"}, "taints": [{"key": "dedicated"}]}
    node = node_document(one, SimulatedNode("a", "w-a-0"))
    labels = node["metadata"]["labels"]
    assert (labels["role"], labels[names.GROUP_LABEL], labels[names.ZONE_LABEL]) == ("gpu", "w", "a")
    assert node["spec"]["taints"] == [{"key": "dedicated"}]


def test_static_groups_adopt_unowned_nodes_their_selector_picks() -> None:
    one = group("Static")
    assert not adopts(one, {"role": "w"})
    expressions = [{"key": "zone", "operator": "NotIn", "values": ["b"]}]
    selector = {"matchLabels": {"role": "w"}, "matchExpressions": expressions}
    one["spec"]["staticInstances"] = {"labelSelector": selector}
    assert adopts(one, {"role": "w"})
    assert not adopts(one, {"role": "w", "zone": "b"})
    assert not adopts(one, {"role": "w", names.GROUP_LABEL: "other"})
