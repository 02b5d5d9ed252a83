"""Health of clusters that are in each situation, in none, and in several at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quarterdeck.health import KINDS, SEVERITIES, SITUATIONS, Assessment, Observer, Sight, World, assess, see
from quarterdeck.health.field import key_of, plural

from .troubles import (
    NOW,
    TROUBLES,
    Json,
    ago,
    event,
    gang,
    having,
    node,
    obj,
    pod,
    refused,
    running,
    waiting,
    webhooks,
)

OBSERVERS = {
    "api-unreachable": Observer(unreachable_since=ago(40)),
    "credentials-refused": Observer(sights={"pods": Sight(state="unauthorized")}),
    "data-stale": Observer(sights={"pods": Sight(state="stale", since=ago(40))}),
    "may-not-read": Observer(sights={"pods": Sight(state="refused")}),
    "definition-missing": Observer(sights={"queues": Sight(state="absent")}),
}
BY_NAME = {each.name: each for each in KINDS}


def world(**objects: list[Json]) -> World:
    return {
        name: {key_of(each): see(BY_NAME[name], each) for each in found} for name, found in objects.items()
    }


def assessed(observer: Observer | None = None, *, later: float = 0.0, **objects: list[Json]) -> Assessment:
    return assess(world(**objects), observer or Observer(), NOW + timedelta(seconds=later))


def situations(found: Assessment) -> list[str]:
    return [each.situation for each in found.problems]


def test_every_situation_is_made_here() -> None:
    assert {*TROUBLES, *OBSERVERS} == {*SITUATIONS}
    assert len(SITUATIONS) >= 40


@pytest.mark.parametrize("situation", TROUBLES)
def test_a_situation_is_seen_with_its_severity_object_time_and_remedy(situation: str) -> None:
    found = assess(world(**TROUBLES[situation]), Observer(), NOW)
    assert situation in situations(found), found
    problem = next(each for each in found.problems if each.situation == situation)
    assert problem.severity == SITUATIONS[situation].severity
    assert problem.reason
    assert problem.subjects[0].name
    assert problem.remedy
    assert "{" not in problem.remedy
    assert problem.text.startswith(problem.subjects[0].kind)
    assert found.summary != "nothing is wrong"
    assert len(found.problems) == 1, "one trouble is told once"


@pytest.mark.parametrize("situation", OBSERVERS)
def test_what_cannot_be_seen_is_a_problem(situation: str) -> None:
    found = assessed(OBSERVERS[situation])
    assert situations(found) == [situation]


def test_a_cluster_without_trouble_has_none() -> None:
    healthy = assessed(
        nodes=[node()],
        pods=[
            pod(node="node-1", status={"phase": "Running", **having("Ready")}),
            pod("b", status={"phase": "Succeeded"}),
        ],
        queues=[obj("research", namespace="")],
        podgroups=[gang("")],
        validatingwebhookconfigurations=[webhooks(service=True)],
        endpointslices=[
            obj(
                "s",
                namespace="system",
                metadata={"labels": {"kubernetes.io/service-name": "hooks"}},
                endpoints=[{}],
            )
        ],
        leases=[obj(spec={"holderIdentity": "a", "renewTime": ago(5), "leaseDurationSeconds": 15})],
        jobs=[obj(status={"failed": 1, "active": 1}), obj("b", status=having("Complete"))],
    )
    assert situations(healthy) == []
    assert healthy.summary == "nothing is wrong"
    assert not healthy.is_bad


def test_that_nothing_is_wrong_is_not_said_before_everything_was_read() -> None:
    found = assessed(Observer(sights={"pods": Sight(state="loading")}))
    assert found.summary == "1 kind not read yet"


def test_identical_reasons_are_one_problem_and_the_worst_comes_first() -> None:
    gangs = [gang("OverLimit", name=f"gang-{number}") for number in range(8)]
    found = assessed(podgroups=gangs, nodes=[node(conditions=having("Ready", "Unknown")["conditions"])])
    assert situations(found) == ["node-silent", "gang-over-limit"]
    assert found.problems[1].text == "8 PodGroups: queue research is at its limit"
    assert [found.count(each) for each in SEVERITIES] == [1, 1, 0]
    assert found.summary == "1 critical, 1 warning"


def test_what_takes_a_moment_is_no_problem_until_it_takes_longer() -> None:
    fresh = [pod(node="node-1", age=10, status={"phase": "Pending"})]
    assert situations(assessed(pods=fresh)) == []
    assert situations(assessed(pods=fresh, later=600)) == ["pod-starting"]


def test_what_happened_once_is_over_after_a_while() -> None:
    told = [event("Evict", "PodGroup", "evicted")]
    assert situations(assessed(events=told)) == ["gang-evicted"]
    assert situations(assessed(events=told, later=3600)) == []


def test_a_gang_is_told_once_and_not_by_each_of_its_pods() -> None:
    members: list[Json] = [{**refused("no room"), **_in_gang(f"p-{number}")} for number in range(4)]
    found = assessed(podgroups=[gang("PodSchedulingErrors", "no rack has room")], pods=members)
    assert [each.text for each in found.problems] == ["PodGroup team/gang: no rack has room"]


def test_what_the_scheduler_says_is_told_plainly_and_the_same_for_every_gang() -> None:
    said = "topology racks, requirement example.com/rack couldn't be satisfied for job <team/{}>: not enough"
    gangs = [gang("PodSchedulingErrors", said.format(name), name=name) for name in ("a", "b")]
    assert [each.text for each in assessed(podgroups=gangs).problems] == [
        "2 PodGroups: no rack has room for all of it"
    ]


def _in_gang(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "team", "annotations": {"pod-group-name": "gang"}}}


def test_a_gang_that_no_node_could_hold_says_so_and_nothing_else() -> None:
    large = pod("a", gang="gang", requests={"nvidia.com/gpu": "16"})
    found = assessed(
        podgroups=[gang("PodSchedulingErrors", "no")], pods=[large], nodes=[node(), node("node-2")]
    )
    assert [each.text for each in found.problems] == [
        "PodGroup team/gang: a pod asks for 16 GPUs, and the largest node has 8 GPUs"
    ]


def test_a_queue_that_does_not_exist_is_told_once() -> None:
    found = assessed(podgroups=[gang("QueueDoesNotExist", queue="typo")], pods=[pod(gang="gang")], queues=[])
    assert [each.text for each in found.problems] == ["PodGroup team/gang: queue typo does not exist"]
    unread = assessed(podgroups=[gang("", queue="typo")], pods=[pod(gang="gang")])
    assert "queue-missing" not in situations(unread), "queues that were not read may be there"


def test_a_crash_loop_names_the_container_the_code_and_the_restarts() -> None:
    status = {"lastState": {"terminated": {"exitCode": 3, "finishedAt": ago(30)}}, "restartCount": 7}
    [problem] = assessed(pods=[waiting("CrashLoopBackOff", **status)]).problems
    assert problem.text == "Pod team/one (7 restarts): container main ends with exit code 3 again and again"
    assert problem.remedy == "kubectl logs pod/one -n team -c main --previous"
    assert problem.since == ago(30)


def test_a_short_break_of_a_watch_is_not_stale_data() -> None:
    assert situations(assessed(Observer(sights={"pods": Sight(state="stale", since=ago(3))}))) == []


def test_an_operator_that_is_not_installed_at_all_is_no_problem() -> None:
    absent = {each.name: Sight(state="absent") for each in KINDS if each.operator == "kai"}
    assert situations(assessed(Observer(sights=absent))) == []


@pytest.mark.parametrize(
    "broken", [{}, {"metadata": None, "spec": 3, "status": []}, {"status": {"conditions": "x"}}]
)
def test_nothing_fails_on_objects_that_are_not_as_expected(broken: Json) -> None:
    for kind in KINDS:
        see(kind, broken)


def test_a_running_container_that_was_restarted_long_ago_is_fine() -> None:
    last: dict[str, Any] = {"terminated": {"exitCode": 1, "finishedAt": ago(7200)}}
    assert situations(assessed(pods=[running(restartCount=9, lastState=last)])) == []


def test_when_trouble_began_is_not_made_up() -> None:
    old = obj(age=86400, spec={"replicas": 1}, status={})
    assert assessed(podcliquesets=[old]).problems[0].since == "", "its age is not the age of the trouble"
    down = node(conditions=having("Ready", "Unknown", age=90)["conditions"])
    assert assessed(nodes=[down]).problems[0].since == ago(90)


def test_numbers_and_nouns_agree() -> None:
    assert [plural(1, "pod"), plural(2, "pod"), plural(1.5, "GPU"), plural(0, "query")] == [
        "1 pod",
        "2 pods",
        "1.5 GPUs",
        "0 queries",
    ]
