"""Words of the case language that the given case file does not use, and faults it does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).with_name("ipam_language.json")


def test_all_cases_pass() -> None:
    total = len(json.loads(FILE.read_text())["cases"])
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness", str(FILE)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == f"{total} passed, 0 failed", done.stdout[-4000:]
