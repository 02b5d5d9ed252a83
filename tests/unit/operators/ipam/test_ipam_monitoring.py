"""Dashboard and alert rules: every query can be read and asks for metrics and labels that exist."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.runtime.metrics import Registry, RuntimeMetrics
from tests.harness.ipam.promql import Query, Store, firing, quantile, rate

FOLDER = files("quarterdeck.operators.ipam") / "monitoring"
RULES: dict[str, Any] = {
    rule["alert"]: rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["spec"]["groups"]
    for rule in group["rules"]
}
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
QUERIES = [
    *(rule["expr"] for rule in RULES.values()),
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
]
COUNT = "subnetpool_parent_reconcile_duration_seconds_count"


def known_metrics() -> dict[str, set[str]]:
    """Every sample name with the labels it may have."""
    registry = Registry()
    IpamMetrics(registry)
    found: dict[str, set[str]] = {}
    for family in (*registry.families, *RuntimeMetrics().registry.families):
        names = [family.name]
        if family.kind == "histogram":
            names = [f"{family.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")]
        for name in names:
            found[name] = {*family.labels, *(["le"] if name.endswith("_bucket") else [])}
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_queries_ask_for_what_is_measured(query: str) -> None:
    known = known_metrics()
    words = set(re.findall(r"\b[a-z_]{12,}\b", query)) - {"histogram_quantile"}
    asked = {
        word
        for word in words
        if re.search(rf"\b{word}\b(?!=)", query) and not re.search(rf"by \([^)]*{word}", query)
    }
    assert asked, query
    for name in asked:
        assert name in known, f"{name} is not measured"
        for label in re.findall(rf"{name}\{{([a-z_]+)=", query):
            assert label in known[name], f"{name} has no label {label}"
    for labels in re.findall(r"by \(([^)]*)\)", query):
        for label in labels.split(","):
            assert any(label.strip() in known[name] for name in asked)


@pytest.mark.parametrize("name", sorted(RULES))
def test_alert_rules_can_be_evaluated(name: str) -> None:
    assert Query(RULES[name]["expr"]).at(Store({}, 30.0), 600.0) == {}


def series(**values: str) -> dict[str, str]:
    return {f'{COUNT}{{result="{result}"}}': text for result, text in values.items()}


@pytest.mark.parametrize(
    ("success", "error", "minutes", "fires"),
    [
        ("0+94x60", "0+6x60", 25, True),
        ("0+95x60", "0+5x60", 25, False),  # 5 % is not more than 5 %
        ("0+94x60", "0+6x60", 5, False),  # not long enough
        ("0+0x60", "0+0x60", 25, False),  # nothing happens: 0/0
        ("0+100x60", "0x60", 25, False),
        ("0x60", "0+1x60", 25, True),
    ],
)
def test_the_error_rate_alert(success: str, error: str, minutes: int, fires: bool) -> None:
    store = Store(series(success=success, error=error), 30.0)
    rule = RULES["ParentPoolReconcileErrorRate"]
    assert bool(firing(rule, store, step=30.0, until=minutes * 60.0)) == fires


def test_the_queries_of_the_design_never_say_anything_and_those_beside_them_do() -> None:
    """As the page has them: the first filters a counter by a label that this counter does not have."""
    page = (Path(__file__).parents[4] / "docs" / "operators" / "ipam.md").read_text()
    table = page.partition("| in the design, never anything | here |\n|---|---|\n")[2].partition("\n\n")[0]
    pairs = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    assert len(pairs) == 2
    duration = "subnetpool_parent_reconcile_duration_seconds_count"
    store = Store(
        {
            'subnetpool_parent_requeue_total{event_type="create"}': "0+9x60",
            f'{duration}{{result="success"}}': "0+3x60",
            f'{duration}{{result="error"}}': "0+1x60",
        },
        30.0,
    )
    for theirs, ours in pairs:
        assert Query(theirs).at(store, 1200.0) == {}
        assert Query(ours).at(store, 1200.0)
    assert "result" not in known_metrics()["subnetpool_parent_requeue_total"]


def test_exhaustion_is_told_per_pool_and_size() -> None:
    store = Store(
        {
            'aquanaut_subnet_free{ns="a",pool="p",size="24"}': "4x60",
            'aquanaut_subnet_free{ns="b",pool="p",size="24"}': "400x60",
        },
        30.0,
    )
    rule = RULES["SubnetPoolExhausted"]
    labels = {
        "alertname": "SubnetPoolExhausted",
        "severity": "critical",
        "ns": "a",
        "pool": "p",
        "size": "24",
    }
    assert firing(rule, store, step=30.0, until=600.0) == [labels]
    found = Query(rule["expr"]).at(store, 600.0)
    assert found == {(("ns", "a"), ("pool", "p"), ("size", "24")): 4.0}


def test_both_results_exist_from_the_start() -> None:
    registry = Registry()
    IpamMetrics(registry)
    text = registry.expose().decode()
    for result in ("success", "error"):
        assert f'{COUNT}{{result="{result}"}} 0' in text


def test_reconciles_under_way_are_counted_and_their_ends_by_result() -> None:
    registry = Registry()
    metrics = IpamMetrics(registry)
    with metrics.pool_reconcile():
        assert "subnetpool_parent_reconcile_inflight 1" in registry.expose().decode()
    with pytest.raises(RuntimeError), metrics.pool_reconcile():
        raise RuntimeError
    text = registry.expose().decode()
    assert "subnetpool_parent_reconcile_inflight 0" in text
    assert f'{COUNT}{{result="error"}} 1' in text
    assert f'{COUNT}{{result="success"}} 1' in text


def test_rate_and_quantile_as_prometheus_has_them() -> None:
    samples = [(30.0 * i, 6.0 * i) for i in range(61)]
    assert rate(samples, 1200.0, 1500.0) == pytest.approx(0.2)
    assert rate([(0.0, 5.0), (30.0, 2.0), (60.0, 4.0)], -10.0, 60.0) == pytest.approx(
        (4 - 5 + 5) / 60 * 70 / 70, rel=0.2
    )
    assert rate([(0.0, 1.0)], -10.0, 60.0) is None
    assert quantile(0.5, [(0.1, 10.0), (0.5, 20.0), (float("inf"), 20.0)]) == pytest.approx(0.1)
    assert quantile(0.75, [(0.1, 10.0), (0.5, 20.0), (float("inf"), 20.0)]) == pytest.approx(0.3)
