"""The scheduler decides as one that is written for reading does."""

import pytest
from benchmarks import naive

from quarterdeck.scheduler import Settings, Snapshot, schedule
from tests.unit.scheduler.randomcluster import random_cluster, uniform_cluster


def assert_equal(snapshot: Snapshot, settings: Settings) -> None:
    expected = {key: (pod.state, pod.node) for key, pod in naive.schedule(snapshot, settings).items()}
    result = schedule(snapshot, settings)
    assert {key: (each.state.value, each.node) for key, each in result.pods.items()} == expected


@pytest.mark.parametrize("start", range(0, 160, 20))
def test_random_clusters_are_scheduled_alike(start: int) -> None:
    for seed in range(start, start + 20):
        assert_equal(*random_cluster(seed))


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_full_clusters_of_equal_pods_are_scheduled_alike(start: int) -> None:
    for seed in range(start, start + 40):
        assert_equal(*uniform_cluster(seed))
