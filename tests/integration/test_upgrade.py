"""A new release takes over what an earlier one made: nothing restarts, nothing is written without need.

``release/*.tar.xz`` hold data directories that earlier versions wrote, and the objects as they showed them.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.release.cluster import PODS, Up

Json = dict[str, Any]
RELEASES = sorted(Path(__file__).with_name("release").glob("*.tar.xz"))
EXPECTED = Counter({"web": 3, "suspended": 1, "waiting": 2})
MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_data_of_an_earlier_release_is_taken_over_as_it_is(release: Path, tmp_path: Path) -> None:
    with tarfile.open(release) as archive:
        archive.extractall(tmp_path, filter="data")
    before: dict[str, dict[str, Json]] = json.loads((tmp_path / "objects.json").read_text())
    cluster = Up(tmp_path)
    try:
        check_the_same(before, cluster.calm())
        check_conversion(cluster)
        check_reconciled(cluster)
        assert "failed calling webhook" not in cluster.log
    finally:
        cluster.stop()


def check_the_same(before: dict[str, dict[str, Json]], after: dict[str, dict[str, Json]]) -> None:
    """Nothing is gone, new or changed; of pods not even the status."""
    for path, objects in before.items():
        found = after[path]
        assert found.keys() == objects.keys(), path
        for uid, each in objects.items():
            now = found[uid]
            assert now.get("spec") == each.get("spec"), each["metadata"]["name"]
            assert now["metadata"].get("generation") == each["metadata"].get("generation")
            if path == PODS:
                assert now["status"] == each["status"]
    phases = [pod["status"]["phase"] for pod in after[PODS].values()]
    assert {"Running", "Pending", "Succeeded"} == set(phases), "the data holds some of each"


def check_conversion(cluster: Up) -> None:
    """An object that was written in the first version of its kind is still read in every one."""
    for version, expected in (
        ("v1alpha1", "Cloud"),
        ("v1alpha2", "Cloud"),
        ("v1", "CloudEphemeral"),
    ):
        found = cluster.get(f"/apis/deckhouse.io/{version}/nodegroups/eldest")
        assert found["spec"]["nodeType"] == expected


def check_reconciled(cluster: Up) -> None:
    """What the old release left is worked on: it scales, resumes, and starts when there is room."""
    change(cluster, "/apis/apps/v1/namespaces/default/deployments/web", {"spec": {"replicas": 3}})
    training = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/suspended"
    change(cluster, training, {"spec": {"suspend": False}})
    gang = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/transcription"
    assert cluster.connection.request("DELETE", gang).status == 200
    deadline = time.monotonic() + 180
    while (running := running_pods(cluster)) != EXPECTED:
        assert time.monotonic() < deadline, running
        time.sleep(0.25)


def running_pods(cluster: Up) -> Counter[str]:
    """How many pods run of each workload that was changed."""
    pods = [pod for pod in cluster.items(PODS).values() if pod["status"]["phase"] == "Running"]
    return Counter(
        name for pod in pods for name in EXPECTED if pod["metadata"]["name"].startswith(f"{name}-")
    )


def change(cluster: Up, path: str, patch: Json) -> None:
    answer = cluster.connection.request("PATCH", path, body=json.dumps(patch).encode(), headers=MERGE)
    assert answer.status == 200, answer.body
