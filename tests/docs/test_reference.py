"""What the pages name exists, and what exists and matters is named."""

from __future__ import annotations

import argparse
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import yaml

import docs
import layers_page
from quarterdeck.cli import apiserver, manifests, run, up
from quarterdeck.cli.instance.announcement import ready_lines
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.operators.grove.logic.capability import CAPABILITIES
from quarterdeck.operators.grove.metrics import GroveMetrics
from quarterdeck.operators.kai.metrics import KaiMetrics
from quarterdeck.operators.trainer.metrics import TrainerMetrics
from quarterdeck.runtime import Builder, Context, Manager, Predicate
from quarterdeck.runtime.controller import predicate, source
from quarterdeck.runtime.metrics import GROUPS, Registry
from quarterdeck.testing import TestCluster

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text() for page in docs.pages()}
REGISTRY = Registry()
GroveMetrics(REGISTRY)
KaiMetrics(REGISTRY)
TrainerMetrics(REGISTRY)
METRICS = {
    **{each.name: each.labels for group in GROUPS.values() for each in group},
    **{each.name: each.labels for each in REGISTRY.families},
}
_METRIC = re.compile(
    r"\b(?:controller_runtime|workqueue|rest_client|leader_election|informer|certwatcher|quarterdeck|grove)_\w+"
)
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def options_of(command: object) -> set[str]:
    """The long options of a command."""
    commands = argparse.ArgumentParser().add_subparsers()
    command.add_command(commands)  # type: ignore[attr-defined]
    [parser] = commands.choices.values()
    options = {option for action in parser._actions for option in action.option_strings}
    return {option for option in options if option.startswith("--")} - {"--help"}


@pytest.mark.parametrize("command", [run, manifests, up, apiserver], ids=lambda module: module.__name__)
def test_operations_names_every_option(command: object) -> None:
    page = PAGES["operations"]
    assert [option for option in sorted(options_of(command)) if f"`{option}" not in page] == []


def test_no_page_names_an_option_that_no_command_has() -> None:
    known = set().union(*(options_of(command) for command in (run, manifests, up, apiserver)))
    for name in ("operations", "quickstart", "tutorial"):
        used = {
            option
            for line in PAGES[name].splitlines()
            if re.search(r"quarterdeck (?:up|run|manifests|apiserver)\b", line)
            for option in re.findall(r"--[a-z][a-z-]+", line.split("|")[0] if "| kubectl" in line else line)
        }
        assert used <= known | {"--server-side"}, name


def test_the_table_of_the_server_has_its_options_and_their_defaults() -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    apiserver.add_command(commands)
    [parser] = commands.choices.values()
    rows = re.findall(r"^\| (`--.*?) \| (.*) \|$", PAGES["apiserver"], re.MULTILINE)
    options = {option: text for cell, text in rows for option in re.findall(r"`(--[a-z-]+)", cell)}
    assert options.keys() == options_of(apiserver) - {"--name"}
    for option, text in options.items():
        action = parser._option_string_actions[option]
        for default in re.findall(r"\(default (\S+?)[,)]", text):
            assert f"default: {default}" in (action.help or ""), option


READY = re.compile(
    r"ready: (?P<url>https://127\.0\.0\.1:\d+)(?:, context (?P<name>[a-z-]+) in (?P<file>\S+))?\n(?P<next>.*)"
)


def test_ready_lines_are_those_of_the_program() -> None:
    seen = 0
    for name, page in PAGES.items():
        for shown in re.findall(r"^ready: https.*\n.*$", page, re.MULTILINE):
            found = READY.fullmatch(shown)
            assert found is not None, (name, shown)
            file = Path(found["file"]).expanduser() if found["file"] else None
            first, second = ready_lines(found["url"], found["name"] or "", file).splitlines()
            assert shown.startswith(first), (name, shown)
            assert found["next"] in (second, "…", "```"), (name, shown)
            seen += 1
    assert seen > 3


def alerts() -> list[dict[str, str]]:
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "monitoring.yaml").read_text()))
    [rule] = [each for each in documents if each["kind"] == "PrometheusRule"]
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_uses_metrics_and_labels_that_exist(alert: dict[str, str]) -> None:
    expression = alert["expr"]
    names = [_SUFFIX.sub("", name) for name in _METRIC.findall(expression)]
    assert names
    assert [name for name in names if name not in METRICS] == []
    labels = {label for name in names for label in METRICS[name]} | {"namespace", "pod"}
    by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    shown = set(re.findall(r"\$labels\.(\w+)", yaml.safe_dump(alert["annotations"])))
    assert by <= labels
    assert shown <= by
    assert expression.count("(") == expression.count(")")


def test_operations_explains_every_alert_and_no_other() -> None:
    explained = re.findall(r"^\| `(Quarterdeck\w+)` \|", PAGES["operations"], re.MULTILINE)
    assert explained == [alert["alert"] for alert in alerts()]


def test_every_metric_that_a_page_names_exists() -> None:
    # the embedded server's, a pytest setting, its plugin
    own = {"quarterdeck_apiserver_revision", "quarterdeck_async", "quarterdeck_pytest"}
    for name, page in PAGES.items():
        named = {_SUFFIX.sub("", metric) for metric in _METRIC.findall(page) if not metric.endswith("_")}
        assert {metric for metric in named if metric not in METRICS} <= own, name


@pytest.mark.parametrize("page", ["kai", "trainer", "grove"])
def test_the_page_of_an_operator_names_all_its_metrics(page: str) -> None:
    prefix = "grove_" if page == "grove" else f"quarterdeck_{page}_"
    measured = [name for name in METRICS if name.startswith(prefix)]
    assert measured
    assert [name for name in measured if name not in PAGES[page]] == []


def test_the_readme_and_the_changelog_name_every_operator() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for operator in project["entry-points"]["quarterdeck.operators"]:
        assert f"(docs/operators/{operator}.md)" in PAGES["README"]
        assert operator in PAGES["architecture"]
        assert re.search(rf"^- \*\*{operator}\*\*:", PAGES["CHANGELOG"], re.MULTILINE | re.IGNORECASE)


def fields_of(section: type[msgspec.Struct]) -> Iterator[str]:
    """The fields of a configuration that are no sections themselves."""
    for field in msgspec.structs.fields(section):
        kinds = [field.type, *getattr(field.type, "__args__", ())]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
        yield from fields_of(inner[0]) if inner else (field.encode_name,)


def test_the_grove_page_names_every_field_of_the_configuration_and_every_capability() -> None:
    named = {
        word for code in re.findall(r"`([^`\n]+)`", PAGES["grove"]) for word in re.split(r"[^\w-]", code)
    }
    fields = set(fields_of(OperatorConfiguration)) - {"apiVersion", "kind"}
    assert len(fields) > 20
    assert fields - named == set()
    assert set(CAPABILITIES) - named == set()


def test_the_runtime_page_names_every_predicate_and_source() -> None:
    names = [name for name in _exported(predicate) if name[0].islower()] + ["CronSource"]
    names += [name for name in _exported(source) if name.endswith("Source") and name != "Source"]
    assert [name for name in names if name not in PAGES["runtime"]] == []
    assert isinstance(predicate.generation_changed, Predicate)


def public_names() -> set[str]:
    rooms = ("api", "api.k8s", "client", "errors", "runtime", "testing", "apiserver")
    parts = (
        "webhook",
        "certificate",
        "controller.cron",
        "controller.source",
        "election",
        "event",
        "health",
        "metrics",
        "operator",
        "operator.program",
        "trace",
    )
    modules = [f"quarterdeck.{room}" for room in rooms] + [f"quarterdeck.runtime.{part}" for part in parts]
    return {name for module in map(importlib.import_module, modules) for name in _exported(module)}


def _exported(module: ModuleType) -> set[str]:
    """What a package lists, or what a plain module defines."""
    here = {
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    }
    return set(getattr(module, "__all__", {name for name in here if name[0] != "_"}))


@pytest.mark.parametrize("page", ["from-kopf", "from-controller-runtime"])
def test_what_is_here_is_here(page: str) -> None:
    rows = re.findall(r"^\| .*? \| (.*) \|$", PAGES[page].replace("\\|", ""), re.MULTILINE)
    code = [part for row in rows for part in re.findall(r"`([^`]*)`", row)]
    classes = {word for part in code for word in re.findall(r"(?<![\w.])[A-Z][A-Za-z]+\b", part)}
    others = {"T", "Hub", "Spoke", "True"}
    assert classes - public_names() - others == set()


INSTANCE = {"client", "key", "log", "cache", "attempt", "priority", "reconcile_id", "cluster", "options"}


@pytest.mark.parametrize("page", [name for name in PAGES if name not in ("README", "CHANGELOG")])
def test_contexts_managers_and_builders_have_what_pages_say(page: str) -> None:
    text = PAGES[page]
    for variable, kind in (("ctx", Context), ("manager", Manager)):
        used = set(re.findall(rf"(?<![\w./]){variable}\.([a-z_]+)\b", text))
        assert {name for name in used if not hasattr(kind, name)} <= INSTANCE, variable
    chained = set(re.findall(r"`\.([a-z_]+)\(", text))
    assert {name for name in chained if not hasattr(Builder, name)} == set()


def test_the_architecture_page_gives_a_reason_for_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", each).group() for each in project["dependencies"]}
    listed = PAGES["architecture"].partition("## Dependencies")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| ([a-z][\w-]*) \|", listed, re.MULTILINE)) - {"package"} == needed


async def test_the_test_of_the_quick_start_passes(cluster: TestCluster) -> None:
    [code] = [each for each in docs.examples(ROOT / "docs" / "quickstart.md") if "(cluster)" in each]
    names: dict[str, object] = {}
    exec(code, names)
    await names["test_what_was_created_is_there"](cluster)  # type: ignore[operator]


def test_the_page_of_layers_shows_the_contracts_and_every_part_says_what_it_is() -> None:
    assert PAGES["layers"] == layers_page.page()
    assert "| |" not in PAGES["layers"].replace("|  | `", "")
