"""helm, named by $HELM or found in the path; tests that need it are skipped where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HELM = os.environ.get("HELM") or shutil.which("helm") or ""
needs_helm = pytest.mark.skipif(not HELM, reason="helm is not installed: name it with HELM=/path/to/helm")


class Helm:
    """helm on one namespace of one cluster; `home` takes what it keeps."""

    def __init__(self, kubeconfig: Path, namespace: str, home: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(home)}
        self._namespace = namespace

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [HELM, *words, "--namespace", self._namespace]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )

    def __call__(self, *words: str) -> str:
        """What a command that succeeds prints."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout
