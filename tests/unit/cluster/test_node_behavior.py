"""How simulated pods behave: settings and defaults, without a cluster."""

from __future__ import annotations

import math

import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.node.behavior import Behavior


def test_pods_of_jobs_run_a_second_and_others_for_ever() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    of_job = Pod.from_dict({"metadata": {"ownerReferences": [owner]}})
    assert Behavior().script(of_job).run_seconds == 1
    assert Behavior().script(Pod()).run_seconds == math.inf


@pytest.mark.parametrize(
    ("container", "seconds", "code"),
    [
        ({"command": ["sleep", "300"]}, 300, 0),
        ({"command": ["/bin/sleep"], "args": ["1.5m"]}, 90, 0),
        ({"args": ["sleep", "infinity"]}, math.inf, 0),
        ({"image": "registry.k8s.io/pause:3.10"}, math.inf, 0),
        ({"image": "pause@sha256:12"}, math.inf, 0),
        ({"command": ["/bin/true"]}, 0, 0),
        ({"command": ["false"]}, 0, 1),
        ({"command": ["/bin/sh", "-c", "exit 42"]}, 0, 42),
        ({"image": "pause", "command": ["sh"]}, 1, 0),
        ({"command": ["sleep", "long"]}, 1, 0),
        ({"command": ["sleep", "1", "2"]}, 1, 0),
        ({"command": ["sh", "-c", "sleep 300"]}, 1, 0),
        ({"command": ["sh", "-c", "exit $X"]}, 1, 0),
    ],
)
def test_plain_words_of_the_only_container_say_what_it_does(
    container: object, seconds: float, code: int
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    document = {"metadata": {"ownerReferences": [owner]}, "spec": {"containers": [container]}}
    script = Behavior().script(Pod.from_dict(document))
    assert (script.run_seconds, script.exit_code) == (seconds, code)
    script = Behavior(run_seconds=7, exit_code=5).script(Pod.from_dict(document))
    assert (script.run_seconds, script.exit_code) == (7, 5)
    two = {**document, "spec": {"containers": [container, container]}}
    assert Behavior().script(Pod.from_dict(two)).run_seconds == 1


def test_behavior_by_job_wins_over_the_general_one() -> None:
    behavior = Behavior(run_seconds=1, exit_code=0, run_seconds_by_job={"a": 9}, exit_code_by_job={"a": 3})
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "a", "batch.kubernetes.io/job-name": "js-a-0"}
    script = behavior.script(Pod.from_dict({"metadata": {"labels": labels}}))
    assert (script.run_seconds, script.exit_code) == (9, 3)
    script = behavior.script(Pod.from_dict({"metadata": {"labels": {"batch.kubernetes.io/job-name": "b"}}}))
    assert (script.run_seconds, script.exit_code) == (1, 0)


def test_first_attempts_are_those_of_the_jobset_or_of_the_container() -> None:
    behavior = Behavior(fail_first_attempts=1)

    def code(attempt: int, restarts: int) -> int:
        labels = {"jobset.sigs.k8s.io/restart-attempt": str(attempt)} if attempt >= 0 else {}
        statuses = [{"name": "c", "restartCount": restarts}]
        document = {"metadata": {"labels": labels}, "status": {"containerStatuses": statuses}}
        return behavior.script(Pod.from_dict(document)).exit_code

    assert [code(0, 5), code(1, 0), code(-1, 0), code(-1, 1)] == [1, 0, 1, 0]
