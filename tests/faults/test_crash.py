"""An acknowledged write survives SIGKILL."""

import subprocess
import sys
from pathlib import Path


def test_fifty_kills_under_concurrent_writers_lose_nothing():
    script = Path(__file__).with_name("crash.py")
    done = subprocess.run(
        [sys.executable, str(script), "--rounds", "50", "--seed", "11"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50 kills" in done.stdout
    assert "nothing lost" in done.stdout
