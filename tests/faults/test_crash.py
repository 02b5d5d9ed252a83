"""An acknowledged write survives SIGKILL: the short form of ``crash.py``, of which CI runs fifty rounds."""

import subprocess
import sys
from pathlib import Path


def test_kills_under_concurrent_writers_lose_nothing() -> None:
    script = Path(__file__).with_name("crash.py")
    done = subprocess.run(
        [sys.executable, str(script), "--rounds", "5", "--seed", "11"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 kills" in done.stdout
    assert "nothing lost" in done.stdout
