"""What is to be done for a pod, and what its status says."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.pod.backoff import next_attempt, restart_delay, span
from quarterdeck.cluster.agent.pod.plan import Outcome, Plan, Restart, make_plan
from quarterdeck.cluster.agent.pod.status import make_status
from quarterdeck.cluster.agent.record.view import ContainerView, PodSight, Run, Trouble, field_path

from .podkit import NOW, ended, pod, running, sight

SIDECAR = {"name": "side", "image": "i", "restartPolicy": "Always"}
FIRST = {"name": "first", "image": "i"}


def starts(plan: Plan) -> list[tuple[str, int]]:
    return [(each.container.name, each.number) for each in plan.start]


def test_all_containers_start_together() -> None:
    assert starts(make_plan(pod("a", "b"), sight())) == [("a", 0), ("b", 0)]


def test_init_containers_start_one_after_the_other() -> None:
    both = pod("a", inits=(FIRST, {"name": "second", "image": "i"}))
    assert starts(make_plan(both, sight())) == [("first", 0)]
    assert starts(make_plan(both, sight(first=running()))) == []
    assert starts(make_plan(both, sight(first=ended()))) == [("second", 0)]
    assert starts(make_plan(both, sight(first=ended(), second=ended()))) == [("a", 0)]


def test_a_sidecar_must_have_started_before_what_follows() -> None:
    with_side = pod("a", inits=(SIDECAR,))
    waiting = ContainerView(run=running(), has_started=False)
    assert starts(make_plan(with_side, sight(side=waiting))) == []
    assert starts(make_plan(with_side, sight(side=running()))) == [("a", 0)]


def test_a_sidecar_that_ends_is_started_again_while_the_pod_works() -> None:
    with_side = pod("a", inits=(SIDECAR,), restartPolicy="Never")
    assert starts(make_plan(with_side, sight(side=ended(0), a=running()))) == [("side", 1)]
    assert make_plan(with_side, sight(side=running(), a=ended(0))).outcome == Outcome("Succeeded")


@pytest.mark.parametrize(
    ("policy", "code", "restarts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 1, True),
        ("OnFailure", 0, False),
        ("Never", 1, False),
    ],
)
def test_policies(policy: str, code: int, restarts: bool) -> None:
    plan = make_plan(pod("a", restartPolicy=policy), sight(a=ended(code)))
    assert bool(plan.start) is restarts
    assert (plan.outcome is None) is restarts


def test_a_failed_init_container_ends_a_pod_that_never_restarts() -> None:
    never = pod("a", inits=(FIRST,), restartPolicy="Never")
    assert make_plan(never, sight(first=ended(1))).outcome == Outcome("Failed")
    always = pod("a", inits=(FIRST,))
    assert starts(make_plan(always, sight(first=ended(1)))) == [("first", 1)]


def test_the_first_restart_is_at_once_and_the_next_wait() -> None:
    assert make_plan(pod("a"), sight(a=ended(1, attempt=0))).start
    later = make_plan(pod("a"), sight(NOW + 3, a=ended(1, number=1, attempt=1)))
    assert (later.start, later.after) == ((), 7.0)


def test_back_off_doubles_up_to_five_minutes() -> None:
    assert [restart_delay(each) for each in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert next_attempt(5, 30) == 6
    assert next_attempt(5, 600) == 1
    assert [span(each) for each in (10, 60, 300)] == ["10s", "1m0s", "5m0s"]


def test_a_start_that_was_interrupted_is_made_again_with_its_number() -> None:
    half = Run(number=3, attempt=2, created=NOW)
    assert starts(make_plan(pod("a"), sight(a=half))) == [("a", 3)]


def test_what_cannot_be_made_is_tried_again_later() -> None:
    trouble = ContainerView(trouble=Trouble("CreateContainerConfigError", "why", NOW + 4))
    plan = make_plan(pod("a"), sight(a=trouble))
    assert (plan.start, plan.after) == ((), 4.0)
    status = make_status(pod("a"), sight(a=trouble), ip="127.64.0.1", host="127.0.0.1", runtime="process")
    waiting = status.container_statuses[0].state.waiting
    assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", "why")


def phase(made: Pod, seen: PodSight) -> str:
    return make_status(made, seen, ip="127.64.0.1", host="127.0.0.1", runtime="process").phase


def test_phases() -> None:
    assert phase(pod("a"), sight()) == "Pending"
    assert phase(pod("a", inits=(FIRST,)), sight(first=running())) == "Pending"
    assert phase(pod("a"), sight(a=running())) == "Running"
    assert phase(pod("a"), sight(a=ended(1))) == "Running"
    assert phase(pod("a", restartPolicy="Never"), sight(a=ended(0))) == "Succeeded"
    assert phase(pod("a", "b", restartPolicy="Never"), sight(a=ended(0), b=ended(2))) == "Failed"
    assert (
        phase(pod("a", inits=(SIDECAR,), restartPolicy="Never"), sight(side=running(), a=ended()))
        == "Running"
    )


def test_the_status_of_a_container_that_backs_off() -> None:
    crashed = ended(1, number=2, attempt=1)
    made = make_status(pod("a"), sight(a=crashed), ip="127.64.0.1", host="127.0.0.1", runtime="process")
    status = made.container_statuses[0]
    assert status.state.waiting.reason == "CrashLoopBackOff"
    assert status.state.waiting.message == "back-off 10s restarting failed container=a pod=p_n(u)"
    assert status.last_state.terminated.exit_code == 1
    assert (status.restart_count, status.ready) == (2, False)


def test_reasons_of_ends() -> None:
    def reason(**more: Any) -> str:
        made = make_status(
            pod("a", restartPolicy="Never"),
            sight(a=ended(137, **more)),
            ip="",
            host="127.0.0.1",
            runtime="process",
        )
        return made.container_statuses[0].state.terminated.reason

    assert reason() == "Error"
    assert reason(is_oom=True) == "OOMKilled"
    assert reason(error="no such program") == "ContainerCannotRun"


def test_a_program_that_cannot_be_started_is_waited_for_with_the_reason() -> None:
    failed = ended(127, error="no such program")
    made = make_status(pod("a"), sight(a=failed), ip="127.64.0.1", host="127.0.0.1", runtime="process")
    status = made.container_statuses[0]
    waiting = status.state.waiting
    assert (waiting.reason, waiting.message) == ("RunContainerError", "no such program")
    assert status.last_state.terminated.reason == "ContainerCannotRun"


def rule(action: str, operator: str, *codes: int) -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(codes)}}


def test_a_rule_may_begin_all_containers_again() -> None:
    again = rule("RestartAllContainers", "In", 42)
    containers = [
        {"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [again]},
        {"name": "b", "image": "i"},
    ]
    some = pod(inits=({"name": "i", "image": "i"},), containers=containers, restartPolicy="Never")
    seen = sight(i=ended(), a=ended(42), b=running())
    assert make_plan(some, seen) == Plan(begins_again=True)
    made = make_status(some, seen, ip="", host="127.0.0.1", runtime="process")
    told = {each.type: (each.status, each.reason) for each in made.conditions}
    assert told["AllContainersRestarting"] == ("True", "RestartAllContainersStarted")
    # Begun again: the runs are previous ones, and the init container comes first.
    old = [ContainerView(previous=run, first=1) for run in (ended(), ended(42), ended(137))]
    begun = sight(i=old[0], a=old[1], b=old[2])
    assert starts(make_plan(some, begun)) == [("i", 1)]
    made = make_status(some, begun, ip="", host="127.0.0.1", runtime="process")
    assert (made.phase, [each.restart_count for each in made.container_statuses]) == ("Running", [1, 1])
    assert {each.type: each.status for each in made.conditions}["AllContainersRestarting"] == "False"


def test_containers_that_begin_again_and_again_wait_longer_and_longer() -> None:
    again = rule("RestartAllContainers", "In", 42)
    some = pod(
        containers=[{"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [again]}]
    )
    for attempt, wait in ((0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0)):
        before = ended(42, number=attempt, attempt=attempt)
        view = ContainerView(previous=before, first=attempt + 1, rested=0.0)
        plan = make_plan(some, sight(a=view))
        assert plan.after == (wait or math.inf)
        rested = make_plan(some, sight(a=msgspec.structs.replace(view, rested=wait)))
        assert rested.start == (Restart(some.spec.containers[0], attempt + 1, attempt + 1),)


def test_a_run_that_could_not_be_begun_waits_for_the_next_try() -> None:
    begun = Run(number=3, attempt=3)
    failed = ContainerView(run=begun, trouble=Trouble("CreateContainerError", "", retry_at=NOW + 8))
    assert make_plan(pod(), sight(main=failed)) == Plan(after=8.0)
    interrupted = make_plan(pod(), sight(main=ContainerView(run=begun)))
    assert interrupted.start == (Restart(pod().spec.containers[0], 3, 3),)


def test_the_first_rule_that_fits_decides() -> None:
    rules = [rule("Restart", "In", 3), rule("RestartAllContainers", "NotIn", 0)]
    some = pod(
        containers=[{"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": rules}]
    )
    assert starts(make_plan(some, sight(a=ended(3)))) == [("a", 1)]
    assert make_plan(some, sight(a=ended(4))).begins_again
    assert make_plan(some, sight(a=ended(0))).outcome == Outcome("Succeeded")


def test_last_words_of_all_containers_fit() -> None:
    long = ended(1, message="x" * 4_000 + "y" * 96)
    again = ContainerView(run=running(number=1), previous=long)
    init = {"name": "i", "image": "i"}
    made = make_status(
        pod("a", "b", "c", inits=(init,), restartPolicy="Never"),
        sight(i=ended(), a=long, b=again, c=ended()),
        ip="",
        host="127.0.0.1",
        runtime="process",
    )
    first, second, _ = made.container_statuses
    assert first.state.terminated.message == "x" * 3072
    assert second.last_state.terminated.message == "x" * 3072


def test_events_name_the_container_they_are_about() -> None:
    some = pod("a", inits=({"name": "i", "image": "i"},), ephemeralContainers=[{"name": "e", "image": "i"}])
    found = [field_path(some, name) for name in ("a", "i", "e", "none")]
    assert found == ["spec.containers{a}", "spec.initContainers{i}", "spec.ephemeralContainers{e}", ""]


def test_nothing_is_ready_that_is_being_stopped() -> None:
    stopping = msgspec.structs.replace(sight(a=running()), is_stopping=True)
    made = make_status(pod("a"), stopping, ip="127.64.0.1", host="127.0.0.1", runtime="process")
    assert made.container_statuses[0].ready is False
    assert made.phase == "Running"
