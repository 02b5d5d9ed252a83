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
    ("container", "seconds"),
    [
        ({"command": ["sleep", "300"]}, 300),
        ({"command": ["sleep"], "args": ["1.5m"]}, 90),
        ({"args": ["sleep", "infinity"]}, math.inf),
        ({"image": "registry.k8s.io/pause:3.10"}, math.inf),
        ({"image": "pause@sha256:12"}, math.inf),
        ({"image": "pause", "command": ["sh"]}, 1),
        ({"command": ["sleep", "long"]}, 1),
        ({"command": ["sleep", "1", "2"]}, 1),
        ({"command": ["sh", "-c", "sleep 300"]}, 1),
    ],
)
def test_a_container_that_only_sleeps_runs_as_long_as_it_says(container: object, seconds: float) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    document = {"metadata": {"ownerReferences": [owner]}, "spec": {"containers": [container]}}
    assert Behavior().script(Pod.from_dict(document)).run_seconds == seconds
    assert Behavior(run_seconds=7).script(Pod.from_dict(document)).run_seconds == 7
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
