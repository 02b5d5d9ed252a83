"""Shell completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LOADS = {
    "bash": 'source "$1" && complete -p quarterdeck',
    "zsh": 'autoload -Uz compinit && compinit -D -u && source "$1" && [[ -n $_comps[quarterdeck] ]]',
    "fish": 'source $argv[1]; and complete -C "quarterdeck uninst" | string match -q "uninstall*"',
}
"""How each shell loads the script (its argument); fails unless commands can be completed then."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_that_the_shell_loads(shell: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quarterdeck.cli", "completion", shell]
    script = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for word in ("dashboard", "uninstall", "node-capacity", "ipam"):
        assert word in script
    if shell == "zsh":
        assert "(eval|file)" in script, "sourcing would run the completion instead of registering it"
    if shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        name = [] if shell == "fish" else [shell]
        loaded = subprocess.run(
            [shell, "-c", LOADS[shell], *name, str(file)],
            capture_output=True,
            text=True,
            env=_quiet(tmp_path),
        )
        assert (loaded.returncode, loaded.stderr) == (0, "")


def _quiet(home: Path) -> dict[str, str]:
    """An environment in which no start-up file of the user's is read."""
    return {"HOME": str(home), "ZDOTDIR": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
