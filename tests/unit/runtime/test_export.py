"""What the package exports, and that its parts fit its contracts."""

from __future__ import annotations

import subprocess
import sys

import quarterdeck.runtime as runtime
from quarterdeck.runtime import cache
from quarterdeck.runtime.manager.option import ManagerMetrics
from quarterdeck.runtime.metrics import RuntimeMetrics


def test_exported_names_are_exactly_the_public_ones() -> None:
    for package in (runtime, cache):
        modules = {name for name, value in vars(package).items() if type(value).__name__ == "module"}
        public = {name for name in vars(package) if not name.startswith("_")} - modules
        # A submodule may share its name with an exported function or class.
        assert set(package.__all__) >= public - {"annotations", "TYPE_CHECKING"}
        assert all(hasattr(package, name) for name in package.__all__)


def test_importing_the_runtime_loads_nothing_a_controller_may_do_without() -> None:
    # The budget is 300 ms; which modules cost it is a fact, how long they take depends on the machine.
    late: tuple[str, ...] = ("concurrent.futures.thread", "cryptography", "json", "multiprocessing")
    late += ("quarterdeck.api.k8s", "shutil", "tempfile", "uvloop", "yaml")
    code = f"import sys, quarterdeck.runtime; print([m for m in {late} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    assert said.stdout.strip() == "[]"


def test_metrics_fit_the_manager() -> None:
    metrics: ManagerMetrics = RuntimeMetrics()
    recorder = metrics.controller("x")
    recorder.max_concurrent.set(4)
    recorder.reconciled("success", 0.1)
    metrics.queue("x").ready(0)
