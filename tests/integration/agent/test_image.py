"""The image that `make image` builds, as the manifests run it: not root, on a read-only root, ready.

Building it needs the network and minutes, so this test takes the archive that is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.cluster.agent.oci.runtime import missing_parts

from .nodekit import KUBECTL, local_cluster

ARCHIVE = Path(__file__).parents[3] / "dist" / "image.tar"
COMMAND = [sys.executable, "-m", "quarterdeck.cli"]
NAMESPACE = ("--namespace", "quarterdeck-system")


def _why_not() -> str:
    if KUBECTL is None:
        return "there is no kubectl on PATH"
    if why := missing_parts():
        return why
    return "" if ARCHIVE.exists() else "there is no dist/image.tar (make image)"


def test_the_image_runs_as_the_manifests_say(tmp_path: Path) -> None:
    if why := _why_not():
        pytest.skip(why)
    imported = subprocess.run(
        [*COMMAND, "image", "import", str(ARCHIVE)],
        env={**os.environ, "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    image = imported.stdout.split()[-1]
    manifests = tmp_path / "manifests.yaml"
    with manifests.open("w") as out:
        subprocess.run([*COMMAND, "manifests", "--image", image], check=True, stdout=out)
    with local_cluster(tmp_path, arguments=("--runtime", "oci")) as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(manifests))
        cluster.kubectl(*NAMESPACE, "rollout", "status", "deployment/quarterdeck", "--timeout=240s")
        pods = json.loads(cluster.kubectl(*NAMESPACE, "get", "pods", "-o", "json"))["items"]
        assert len(pods) == 2
        for pod in pods:
            assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
            name = pod["metadata"]["name"]
            assert "permissions are missing" not in cluster.kubectl(*NAMESPACE, "logs", name)
            tried = cluster.kubectl(
                *(*NAMESPACE, "exec", name, "--", "sh", "-c"),
                "id -u; touch /tmp/x && echo written; touch /x 2>/dev/null || echo refused",
            )
            assert tried.split() == ["65532", "written", "refused"]
        lease = json.loads(cluster.kubectl(*NAMESPACE, "get", "lease", "quarterdeck", "-o", "json"))
        assert lease["spec"]["holderIdentity"], "one of them leads"
