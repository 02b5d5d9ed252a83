"""Updates: of a clique, of a group, of a set; one thing at a time, and never too few left."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import UNSET, Condition, Time
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic import cliqueupdate, groupupdate, setupdate
from quarterdeck.operators.grove.logic.breach import breached_since, was_ever_healthy, was_ever_scheduled
from quarterdeck.operators.grove.logic.groupstate import group_replicas
from quarterdeck.operators.grove.logic.status import clique_status, group_status, set_status, topology_verdict
from quarterdeck.operators.grove.logic.templatehash import clique_hashes
from quarterdeck.operators.grove.types import (
    CliqueUpdate,
    Pack,
    PodClique,
    PodCliqueSetStatus,
    PodsSelected,
    ReplicaUpdate,
    SetUpdate,
    TopologyConstraint,
    TopologyLevel,
)

from .grovekit import NOW, clique, condition, member, pclq, pcs, pcsg, pod, workload

BEGUN = cliqueupdate.begin_update("g2", "new", NOW)


def step(
    progress: CliqueUpdate, *pods: Pod, replicas: int = 2, least: int = 2
) -> tuple[CliqueUpdate, list[str]]:
    taken = cliqueupdate.next_step(progress, list(pods), replicas=replicas, least=least, now=NOW)
    return taken.progress, [each.metadata.name for each in taken.doomed]


def test_pods_that_do_not_work_are_replaced_at_once() -> None:
    old = [pod(state, state, hash="old") for state in ("pending", "starting", "startedNotReady", "crashed")]
    progress, doomed = step(BEGUN, *old, least=1)
    assert doomed == ["pending", "starting", "startedNotReady", "crashed"]
    assert progress is BEGUN


def test_pods_that_work_are_replaced_one_by_one_the_oldest_first() -> None:
    old = [
        pod("b", hash="old", created="2030-01-01T00:00:02Z"),
        pod("a", hash="old", created="2030-01-01T00:00:01Z"),
    ]
    progress, doomed = step(BEGUN, *old)
    assert doomed == ["a"]
    selected = progress.ready_pods_selected_to_update
    assert (selected.current, selected.completed) == ("a", ())
    # still there, or its successor not ready: nothing happens
    assert step(progress, pod("a", hash="old", is_deleting=True), old[0]) == (progress, [])
    assert step(progress, old[0], pod("c", "starting")) == (progress, [])
    after, doomed = step(progress, old[0], pod("c"))
    assert doomed == ["b"]
    selected = after.ready_pods_selected_to_update
    assert (selected.current, tuple(selected.completed)) == ("b", ("a",))
    ended, doomed = step(after, pod("c"), pod("d"))
    assert (doomed, ended.update_ended_at, ended.ready_pods_selected_to_update) == ([], NOW, UNSET)


def test_a_pod_that_was_chosen_and_not_deleted_is_deleted_now_and_no_other() -> None:
    old = [pod("a", hash="old"), pod("b", hash="old"), pod("c", hash="old")]
    progress, doomed = step(BEGUN, *old)
    assert doomed == ["a"]
    assert step(progress, *old) == (progress, ["a"])
    assert step(progress, *old, replicas=4, least=4) == (progress, [])  # but not below the minimum


def test_nothing_that_works_is_touched_below_the_minimum() -> None:
    assert step(BEGUN, pod("a", hash="old"), pod("b", "pending")) == (BEGUN, [])


def test_a_pod_that_was_scaled_away_while_it_was_replaced_is_not_waited_for() -> None:
    old = [pod("a", hash="old"), pod("b", hash="old"), pod("c", hash="old")]
    progress, doomed = step(BEGUN, *old, replicas=3)
    assert doomed == ["a"]
    progress, doomed = step(progress, *old[1:], replicas=2)
    assert doomed == ["b"]
    progress, doomed = step(progress, old[2], pod("d"))
    assert doomed == ["c"]
    assert step(progress, pod("d"), pod("e"))[0].update_ended_at == NOW


def test_new_pods_that_are_scaled_away_are_not_waited_for() -> None:
    chosen = PodsSelected(current="b", completed=("a",))
    progress = BEGUN.evolve(ready_pods_selected_to_update=chosen)
    assert step(progress, pod("d"), replicas=1, least=1)[0].update_ended_at == NOW


def test_a_successor_that_works_is_enough_though_its_predecessor_has_not_gone() -> None:
    """It may never go: its node may be lost."""
    progress, _ = step(BEGUN, pod("a", hash="old"), pod("b", hash="old"))
    stuck = pod("a", hash="old", is_deleting=True)
    assert step(progress, stuck, pod("b", hash="old"), pod("c"))[1] == ["b"]


def test_an_update_below_the_minimum_that_was_asked_for_ends() -> None:
    progress, doomed = step(BEGUN, pod("a", hash="old"), replicas=1, least=3)
    assert doomed == ["a"]
    assert step(progress, pod("b"), replicas=1, least=3)[0].update_ended_at == NOW


def test_when_an_update_begins() -> None:
    old, new = pod("a", hash="old"), pod("b")
    ended = BEGUN.evolve(update_ended_at=NOW)
    assert cliqueupdate.is_due(UNSET, [old], "g2", "new")
    assert not cliqueupdate.is_due(UNSET, [new, pod("c", hash="old", is_deleting=True)], "g2", "new")
    assert not cliqueupdate.is_due(BEGUN, [old], "g2", "new")
    assert not cliqueupdate.is_due(ended, [new], "g3", "new")
    assert cliqueupdate.is_due(ended, [new], "g3", "newer")
    # the template was taken back before a pod was replaced: the update of before must not go on
    assert cliqueupdate.is_due(BEGUN, [old], "g1", "old")


def test_an_update_without_old_pods_ends_at_once() -> None:
    progress, doomed = step(BEGUN, pod("a"))
    assert (doomed, progress.update_ended_at) == ([], NOW)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_an_update_ends_and_never_takes_a_working_pod_below_the_minimum(
    replicas: int, least: int, data: Any
) -> None:
    least = min(least, replicas)
    pods = {
        f"o{index}": pod(f"o{index}", data.draw(st.sampled_from(["ready", "pending", "crashed"])), hash="old")
        for index in range(replicas)
    }
    progress, made = BEGUN, 0
    for _ in range(10 * replicas + 10):
        if not cliqueupdate.is_updating(progress):
            break
        taken = cliqueupdate.next_step(progress, list(pods.values()), replicas=replicas, least=least, now=NOW)
        progress = taken.progress
        working = [each for each in taken.doomed if each.status.conditions[1].status == "True"]
        assert len(working) <= 1
        if working:
            assert sum(each.status.conditions[1].status == "True" for each in pods.values()) >= least
        for each in taken.doomed:
            del pods[each.metadata.name]
        # pods that were missing come back, and one that was made earlier becomes ready
        for name in [name for name in pods if name.startswith("n")]:
            pods[name] = pod(name)
        while len(pods) < replicas:
            pods[f"n{made}"] = pod(f"n{made}", "starting")
            made += 1
    assert progress.update_ended_at == NOW
    assert all(name.startswith("n") for name in pods)


HASHES = {"c": "new"}
GROUP = groupupdate.begin_update("g2", NOW)


def replica(index: int, hash: str = "new", *, is_ready: bool = True, **fields: Any) -> PodClique:
    counts = {"scheduled_replicas": 1, "ready_replicas": 1 if is_ready else 0}
    return member("w-0-sg", index, "c", hash=hash, **{**counts, **fields})


def group_step(
    progress: Any, *cliques: PodClique, count: int = 2, least: int = 1
) -> tuple[Any, tuple[int, ...]]:
    replicas = group_replicas(cliques, count=count, clique_names=["c"])
    taken = groupupdate.next_step(progress, replicas, HASHES, least=least, now=NOW)
    return taken.progress, taken.doomed


def test_replicas_that_do_not_work_are_made_anew_at_once() -> None:
    pending = replica(0, "old", scheduled_replicas=0, ready_replicas=0)
    assert group_step(GROUP, pending, replica(1, "old", is_ready=False)) == (GROUP, (0, 1))


def test_replicas_that_work_are_made_anew_one_by_one_the_lowest_first() -> None:
    progress, doomed = group_step(GROUP, replica(0, "old"), replica(1, "old"))
    assert doomed == (0,)
    assert group_step(progress, replica(1, "old")) == (progress, ())
    assert group_step(progress, replica(0, is_ready=False), replica(1, "old")) == (progress, ())
    after, doomed = group_step(progress, replica(0), replica(1, "old"))
    assert doomed == (1,)
    selected = after.ready_replica_indices_selected_to_update
    assert (selected.current, tuple(selected.completed)) == (1, (0,))
    ended, doomed = group_step(after, replica(0), replica(1))
    assert (doomed, ended.update_ended_at, ended.ready_replica_indices_selected_to_update) == ((), NOW, UNSET)


def test_a_group_that_was_scaled_below_its_minimum_is_updated() -> None:
    assert group_step(GROUP, replica(0, "old"), count=1, least=3)[1] == (0,)


@pytest.mark.parametrize(
    ("members", "status", "expected"),
    [
        ([replica(0)], {}, False),
        ([replica(0)], {"current_pod_clique_set_generation_hash": "g1"}, True),
        ([replica(0)], {"current_pod_clique_set_generation_hash": "g2"}, False),
        # changed before it had ever come up
        ([replica(0, "old")], {}, True),
        # taken back between the end of the update and the report about it
        ([replica(0, "old")], {"current_pod_clique_set_generation_hash": "g2"}, True),
        ([replica(0, "old")], {"update_progress": GROUP}, False),
        # to and fro and to again
        ([replica(0, "old")], {"update_progress": GROUP.evolve(update_ended_at=NOW)}, True),
        ([replica(0)], {"update_progress": GROUP.evolve(update_ended_at=NOW)}, False),
    ],
)
def test_when_the_update_of_a_group_begins(
    members: list[PodClique], status: dict[str, Any], expected: bool
) -> None:
    made = group_replicas(members, count=1, clique_names=["c"])
    assert groupupdate.is_due(pcsg(**status).status, made, HASHES, "g2") is expected


def test_a_group_below_its_minimum_is_left_alone() -> None:
    assert group_step(GROUP, replica(0, "old"), replica(1, is_ready=False), least=2) == (GROUP, ())


def test_a_replica_that_is_scaled_away_during_its_update_is_done() -> None:
    progress, _ = group_step(GROUP, replica(0, "old"), replica(1, "old"))
    moved = progress.evolve(
        ready_replica_indices_selected_to_update=progress.ready_replica_indices_selected_to_update.evolve(
            current=5
        )
    )
    assert group_step(moved, replica(0), replica(1))[0].update_ended_at == NOW


def test_the_first_hash_is_no_update_and_another_one_is() -> None:
    fresh = setupdate.changed_hash(PodCliqueSetStatus(), "g1", now=NOW)
    assert (fresh.current_generation_hash, fresh.update_progress) == ("g1", UNSET)
    assert setupdate.changed_hash(fresh, "g1", now=NOW) is fresh
    begun = setupdate.changed_hash(fresh.evolve(updated_replicas=3), "g2", now=NOW)
    assert begun.update_progress == SetUpdate(update_started_at=NOW)
    assert begun.updated_replicas == 0


def state(index: int, *, is_done: bool = False, **fields: Any) -> setupdate.ReplicaState:
    return setupdate.ReplicaState(index=index, is_done=is_done, **{"scheduled_pods": 1, **fields})


def turn(*states: setupdate.ReplicaState, current: int | None = None) -> Any:
    updating = () if current is None else (ReplicaUpdate(replica_index=current, update_started_at=NOW),)
    progress = SetUpdate(update_started_at=NOW, currently_updating=updating)
    return setupdate.next_progress(progress, states, NOW)


@pytest.mark.parametrize(
    ("states", "chosen"),
    [
        ([state(0), state(1)], 0),
        ([state(0, is_done=True), state(1)], 1),
        ([state(0), state(1, is_breached=True)], 1),
        ([state(0), state(1, is_breached=True), state(2, scheduled_pods=0)], 2),
        ([state(0, is_doomed=True), state(1)], 1),
    ],
)
def test_the_replica_with_the_least_to_lose_is_updated_first(states: list[Any], chosen: int) -> None:
    (entry,) = turn(*states).currently_updating
    assert entry.replica_index == chosen


def test_a_replica_is_finished_before_the_next_one_begins() -> None:
    both = (state(0), state(1, scheduled_pods=0))
    assert [each.replica_index for each in turn(*both, current=0).currently_updating] == [0]
    assert [
        each.replica_index for each in turn(state(0, is_done=True), both[1], current=0).currently_updating
    ] == [1]


def test_an_update_ends_with_the_last_replica() -> None:
    ended = turn(state(0, is_done=True), current=0)
    assert (ended.update_ended_at, ended.currently_updating) == (NOW, ())
    assert turn().update_ended_at == NOW


def test_while_all_that_is_left_is_about_to_be_terminated_nothing_is_updated() -> None:
    waiting = turn(state(0, is_doomed=True))
    assert (waiting.update_ended_at, waiting.currently_updating) == (UNSET, ())


def test_a_replica_that_was_scaled_away_is_not_waited_for() -> None:
    assert [each.replica_index for each in turn(state(0), current=4).currently_updating] == [0]


def test_whose_turn_it_is() -> None:
    progress = SetUpdate(currently_updating=(ReplicaUpdate(replica_index=1),))
    assert setupdate.is_turn_of(progress, {names.SET_INDEX: "1"})
    assert not setupdate.is_turn_of(progress, {names.SET_INDEX: "0"})
    assert not setupdate.is_turn_of(UNSET, {names.SET_INDEX: "1"})


def status_of(pods: list[Pod], *, label: str = "new", expected: str = "new", **fields: Any) -> Any:
    labels = {names.PART_OF: "w", names.TEMPLATE_HASH: label}
    made = pclq("w-0-a", replicas=2, least=2, labels=labels, observed_generation=1, **fields)
    return clique_status(made, pods, expected_hash=expected, generation_hash="g1", now=NOW)


def test_a_clique_reports_its_pods() -> None:
    found = status_of([pod("a"), pod("b", "gated"), pod("c", hash="old", is_deleting=True)])
    assert (found.replicas, found.ready_replicas, found.scheduled_replicas) == (2, 2, 2)
    assert (found.schedule_gated_replicas, found.updated_replicas) == (1, 2)
    assert found.hpa_pod_selector == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=w,grove.io/podclique=w-0-a"
    )
    assert (found.current_pod_template_hash, found.current_pod_clique_set_generation_hash) == ("new", "g1")


def test_hashes_advance_only_when_all_pods_are_of_the_template() -> None:
    assert status_of([pod("a"), pod("b", hash="old")]).current_pod_template_hash is UNSET
    assert status_of([pod("a")], label="old").current_pod_template_hash is UNSET
    assert status_of([pod("a")], update_progress=BEGUN).current_pod_template_hash is UNSET


def test_pods_of_an_update_are_counted_by_its_target() -> None:
    assert (
        status_of([pod("a", hash="old"), pod("b")], label="old", update_progress=BEGUN).updated_replicas == 1
    )


def test_what_is_missing_is_judged_after_the_first_complete_pass() -> None:
    labels = {names.PART_OF: "w", names.TEMPLATE_HASH: "new"}
    fresh = clique_status(
        pclq("w-0-a", labels=labels), [], expected_hash="new", generation_hash="g1", now=NOW
    )
    assert [each.type for each in fresh.conditions] == [names.PODCLIQUE_SCHEDULED]
    assert [each.type for each in status_of([]).conditions] == [
        names.PODCLIQUE_SCHEDULED,
        names.MIN_AVAILABLE_BREACHED,
    ]


def test_members_of_a_group_are_not_scaled_by_themselves() -> None:
    found = clique_status(replica(0), [], expected_hash="x", generation_hash="g", now=NOW)
    assert found.hpa_pod_selector is UNSET


def scheduled(index: int, **fields: Any) -> PodClique:
    fields = {"ready_replicas": 1, "current_pod_clique_set_generation_hash": "g1", **fields}
    is_scheduled = condition(names.PODCLIQUE_SCHEDULED, "True")
    return member("w-0-sg", index, "c", conditions=[is_scheduled], **fields)


def test_a_group_reports_its_replicas() -> None:
    made = pcsg(replicas=4, least=1)
    cliques = [
        scheduled(0),
        scheduled(1, ready_replicas=0),
        scheduled(2, current_pod_clique_set_generation_hash="g0"),
        scheduled(3, is_deleting=True),
        scheduled(9),
    ]
    found = group_status(made, cliques, generation_hash="g1", now=NOW)
    assert (found.replicas, found.scheduled_replicas, found.available_replicas, found.updated_replicas) == (
        4,
        3,
        2,
        1,
    )
    assert found.current_pod_clique_set_generation_hash is UNSET
    assert found.selector.endswith("grove.io/podcliquescalinggroup=w-0-sg")
    whole = group_status(pcsg(), [scheduled(0)], generation_hash="g1", now=NOW)
    assert whole.current_pod_clique_set_generation_hash == "g1"


def test_a_group_that_has_recovered_is_not_being_terminated_any_more() -> None:
    going = condition(names.GANG_TERMINATION, "True")
    recovered = group_status(pcsg(conditions=[going]), [scheduled(0)], generation_hash="g1", now=NOW)
    assert [each.type for each in recovered.conditions] == [names.MIN_AVAILABLE_BREACHED]
    made_anew = member("w-0-sg", 0, "c")  # nobody has looked at it yet
    for cliques in ([], [made_anew]):
        still = group_status(pcsg(conditions=[going]), cliques, generation_hash="g1", now=NOW)
        assert {(each.type, each.status) for each in still.conditions} == {
            (names.MIN_AVAILABLE_BREACHED, "True"),
            (names.GANG_TERMINATION, "True"),
        }


def test_a_minimum_that_is_lost_right_after_the_start_is_lost_all_the_same() -> None:
    """Conditions take their first form within five seconds; a gang may be placed and broken in less."""
    before = Time.of_timestamp(NOW.timestamp() - 2)
    had_nodes = condition(names.PODCLIQUE_SCHEDULED, "True", before)
    fields: dict[str, Any] = {"replicas": 2, "least": 2, "created": before, "observed_generation": 1}

    def broken(*conditions: Condition) -> PodClique:
        made = member("w-0-sg", 0, "c", conditions=conditions, **fields)
        status = clique_status(made, [pod("a")], expected_hash="h", generation_hash="g1", now=NOW)
        return made.evolve(status=status)

    lost, never_started = broken(had_nodes), broken()
    assert was_ever_scheduled(lost)
    assert not was_ever_scheduled(never_started)
    assert breached_since(lost.status.conditions) == NOW  # from when on the delay counts
    for only_member, was_healthy in ((lost, True), (never_started, False)):
        group = pcsg(created=before)
        group = group.evolve(status=group_status(group, [only_member], generation_hash="g1", now=NOW))
        assert breached_since(group.status.conditions)
        assert was_ever_healthy(group) == was_healthy


def test_a_set_reports_its_replicas() -> None:
    made = workload(replicas=2).evolve(status=PodCliqueSetStatus(current_generation_hash="g1"))
    made = made.evolve(spec=made.spec.evolve(replicas=2))
    hashes = clique_hashes(made)
    fresh: dict[str, Any] = {
        "labels": {names.TEMPLATE_HASH: hashes["pc-a"]},
        "current_pod_template_hash": hashes["pc-a"],
        "current_pod_clique_set_generation_hash": "g1",
        "updated_replicas": 2,
        "ready_replicas": 2,
    }
    cliques = {name: pclq(name, replicas=2, least=2, **fresh) for name in ("w-0-pc-a", "w-1-pc-a")}
    groups = {
        "w-0-sg-x": pcsg(
            "w-0-sg-x", least=2, available_replicas=2, current_pod_clique_set_generation_hash="g1"
        ),
        "w-1-sg-x": pcsg(
            "w-1-sg-x", least=2, available_replicas=2, current_pod_clique_set_generation_hash="g0"
        ),
    }
    found = set_status(made, cliques, groups, (), hashes)
    assert (found.replicas, found.available_replicas, found.updated_replicas) == (2, 2, 1)
    lacking = set_status(made, {"w-0-pc-a": cliques["w-0-pc-a"]}, groups, (), hashes)
    assert lacking.available_replicas == 1
    counted = set_status(
        made.evolve(status=made.status.evolve(update_progress=SetUpdate())), cliques, groups, (), hashes
    ).update_progress
    assert (counted.updated_pod_cliques_count, counted.total_pod_cliques_count) == (2, 2)
    assert counted.updated_pod_clique_scaling_groups_count == 1
    assert counted.total_pod_clique_scaling_groups_count == 2


LEVELS = (TopologyLevel(domain="zone", key="z"), TopologyLevel(domain="rack", key="r"))


@pytest.mark.parametrize(
    ("name", "levels", "is_enabled", "expected"),
    [
        (None, None, False, None),
        ("topo", LEVELS, False, ("Unknown", "TopologyAwareSchedulingDisabled")),
        (None, None, True, ("False", "AllClusterTopologyLevelsAvailable")),
        ("", None, True, ("Unknown", "TopologyNameMissing")),
        ("topo", None, True, ("Unknown", "ClusterTopologyNotFound")),
        ("topo", LEVELS[:1], True, ("True", "ClusterTopologyLevelsUnavailable")),
        ("topo", LEVELS, True, ("False", "AllClusterTopologyLevelsAvailable")),
    ],
)
def test_whether_a_topology_has_what_is_asked_of_it(
    name: str | None, levels: Any, is_enabled: bool, expected: tuple[str, str] | None
) -> None:
    constraint: Any = UNSET
    if name is not None:
        constraint = TopologyConstraint(topology_name=name, pack=Pack(required="rack"))
    made = pcs(clique("a"), topology_constraint=constraint)
    found = topology_verdict(made, levels, is_enabled=is_enabled, has_default=False)
    assert (found and (found.status, found.reason)) == expected
