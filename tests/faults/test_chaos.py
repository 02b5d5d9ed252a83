"""The story of all operators under faults: a few seeds; ``chaos.py`` runs as many as you like."""

from __future__ import annotations

from .chaos import tell

SEEDS = (4, 7)


def test_everything_holds_on_bad_days() -> None:
    reports = list(tell(SEEDS))
    assert [report["seed"] for report in reports] == list(SEEDS)
    assert [report["problem"] for report in reports] == ["", ""]
    struck = {fault for report in reports for fault in report["struck"]}
    assert {"409", "429", "500", "CutWatch", "watch 410", "LoseAnswer"} <= struck
    assert {"leader killed", "node failed", "node lost"} <= struck
    assert {"object replaced", "name taken", "definition edited"} <= struck
