"""Shell completion."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_script_is_printed_that_the_shell_understands(shell: str) -> None:
    command = [sys.executable, "-m", "quarterdeck.cli", "completion", shell]
    script = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for word in ("dashboard", "uninstall", "--node-capacity", "ipam"):
        assert word in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, check=True, text=True)
