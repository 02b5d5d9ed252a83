"""Commands that need a server say in one line that there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quarterdeck.cli.main import main

pytestmark = pytest.mark.real_time

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("command", [["top", "--once"], ["dashboard"], ["run"]], ids=lambda each: each[0])
def test_a_server_that_is_not_there_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": "x", "cluster": {"server": f"https://{NOBODY}"}}],
                "users": [{"name": "x", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "current-context": "x",
            }
        )
    )
    assert main([*command, "--kubeconfig", str(file)]) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith(f"quarterdeck: cannot connect to {NOBODY}")
