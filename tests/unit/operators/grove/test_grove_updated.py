"""When a clique or a group counts as updated: all of it must hold, not most of it."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.setupdate import is_clique_updated, is_group_updated
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup


def clique(hash: str = "new", *, least: int = 2, **status: Any) -> PodClique:
    known = {
        "currentPodTemplateHash": "new",
        "currentPodCliqueSetGenerationHash": "set",
        "updatedReplicas": 2,
        "readyReplicas": 2,
    }
    return PodClique.from_dict(
        {
            "metadata": {"name": "c", "labels": {names.TEMPLATE_HASH: hash}},
            "spec": {"replicas": 3, "minAvailable": least},
            "status": {**known, **status},
        }
    )


def is_updated(pclq: PodClique) -> bool:
    return is_clique_updated(pclq, template_hash="new", generation_hash="set")


def test_a_clique_with_its_least_of_new_and_ready_pods_is_updated() -> None:
    assert is_updated(clique())


@pytest.mark.parametrize(
    "pclq",
    [
        clique("old"),
        clique(currentPodTemplateHash="old"),
        clique(currentPodCliqueSetGenerationHash="old"),
        clique(updatedReplicas=1),
        clique(readyReplicas=1),
        clique(least=3),
        clique(updateProgress={"updateStartedAt": "2030-01-01T00:00:00Z"}),
    ],
    ids=["label", "template", "generation", "too few new", "too few ready", "more needed", "under way"],
)
def test_a_clique_that_lacks_one_of_it_is_not(pclq: PodClique) -> None:
    assert not is_updated(pclq)


def test_an_update_that_ended_is_no_longer_under_way() -> None:
    times = {"updateStartedAt": "2030-01-01T00:00:00Z", "updateEndedAt": "2030-01-01T00:01:00Z"}
    assert is_updated(clique(updateProgress=times))


def group(hash: str, **status: Any) -> PodCliqueScalingGroup:
    return PodCliqueScalingGroup.from_dict(
        {"metadata": {"name": "g"}, "status": {"currentPodCliqueSetGenerationHash": hash, **status}}
    )


def test_a_group_is_updated_with_the_hash_of_the_set_and_no_update_under_way() -> None:
    assert is_group_updated(group("set"), "set")
    assert not is_group_updated(group("old"), "set")
    progress = {"updateStartedAt": "2030-01-01T00:00:00Z"}
    assert not is_group_updated(group("set", updateProgress=progress), "set")
