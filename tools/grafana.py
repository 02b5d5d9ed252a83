"""Grafana dashboards, made from the metrics that exist: one for the runtime, one for each operator.

Every metric a program registers has a panel; what it is, its help text says. ``make chart`` writes them into
the chart, ``python tools/grafana.py FOLDER`` anywhere else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from quarterdeck.client import Config
from quarterdeck.runtime.operator import installed_operators
from quarterdeck.runtime.operator.program import Program, ProgramOptions

__all__ = ["dashboards", "families_of"]

Json = dict[str, Any]
OURS = ("grove", "ipam", "kai", "nodegroup", "trainer")
WIDTH, HEIGHT, COLUMNS = 8, 7, 3


def families_of(*operators: str) -> dict[str, tuple[str, str]]:
    """Type and help of every metric that a program with these operators registers, by name."""
    installed = installed_operators()
    program = Program(
        Config(server="https://127.0.0.1"), [installed[name] for name in operators], ProgramOptions()
    )
    found: dict[str, list[str]] = {}
    for line in program.metrics.registry.expose().decode().splitlines():
        mark, kind, name, text = (*line.split(" ", 3), "", "", "", "")[:4]
        if mark == "#" and kind in ("HELP", "TYPE"):
            found.setdefault(name, ["", ""])[kind == "HELP"] = text
    return {name: (kind, text) for name, (kind, text) in found.items()}


def dashboards() -> dict[str, Json]:
    """Every dashboard, by the name of its file."""
    runtime = families_of()
    made = {"runtime": _dashboard("Quarterdeck: runtime", runtime)}
    for name in OURS:
        own = {key: each for key, each in families_of(name).items() if key not in runtime}
        if own:
            made[name] = _dashboard(f"Quarterdeck: {name}", own)
    return made


def _dashboard(title: str, families: dict[str, tuple[str, str]]) -> Json:
    panels = [_panel(place, name, *family) for place, (name, family) in enumerate(sorted(families.items()))]
    choice = {
        "name": "namespace",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": "label_values(controller_runtime_reconcile_total, namespace)",
        "refresh": 2,
    }
    return {
        "title": title,
        "uid": title.lower().replace(": ", "-"),
        "tags": ["quarterdeck"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, choice]},
        "panels": panels,
    }


def _panel(place: int, name: str, kind: str, text: str) -> Json:
    expression, legend = _query(name, kind)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": name.replace("_", " "),
        "description": text,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {
            "x": place % COLUMNS * WIDTH,
            "y": place // COLUMNS * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
        "fieldConfig": {"defaults": {"unit": _unit(name, kind)}, "overrides": []},
    }


def _query(name: str, kind: str) -> tuple[str, str]:
    here = '{namespace="$namespace"}'
    if kind == "counter":
        return f"sum without (pod, instance) (rate({name}{here}[5m]))", ""
    if kind == "histogram":
        buckets = f"sum by (le, controller) (rate({name}_bucket{here}[5m]))"
        return f"histogram_quantile(0.99, {buckets})", "99 % {{controller}}"
    return f"{name}{here}", ""


def _unit(name: str, kind: str) -> str:
    if kind == "counter":
        return "ops"
    return "s" if "_seconds" in name else "bytes" if "_bytes" in name else "short"


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, dashboard in dashboards().items():
        (folder / f"{name}.json").write_text(json.dumps(dashboard, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
