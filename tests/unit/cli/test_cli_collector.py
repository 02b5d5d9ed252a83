"""The programs' garbage collector."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit, gc
from quarterdeck.cli.collector import relax_collector
before = gc.get_freeze_count()  # some versions freeze a little by themselves
atexit.register(lambda: print(gc.get_freeze_count() > before))  # what is registered later runs before
relax_collector()
print(gc.get_threshold()[0] > 10_000, gc.get_freeze_count() > before)
"""


def test_it_is_rare_while_a_program_runs_and_idle_at_its_end() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]
