"""What the package exports, and that its parts fit the seams."""

from __future__ import annotations

import quarterdeck.runtime as runtime
from quarterdeck.runtime import cache
from quarterdeck.runtime.manager import ManagerMetrics
from quarterdeck.runtime.metrics import RuntimeMetrics


def test_exported_names_are_exactly_the_public_ones() -> None:
    for package in (runtime, cache):
        modules = {name for name, value in vars(package).items() if type(value).__name__ == "module"}
        public = {name for name in vars(package) if not name.startswith("_")} - modules
        # A submodule may share its name with an exported function or class.
        assert set(package.__all__) >= public - {"annotations"}
        assert all(hasattr(package, name) for name in package.__all__)


def test_metrics_fit_the_manager() -> None:
    metrics: ManagerMetrics = RuntimeMetrics()
    recorder = metrics.controller("x")
    recorder.max_concurrent.set(4)
    recorder.reconciled("success", 0.1)
    metrics.queue("x").ready(0)
