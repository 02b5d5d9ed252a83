"""`quarterdeck convert`, offline."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.errors import ConfigError
from quarterdeck.operators.nodegroup import command as convert

MANIFEST = """\
apiVersion: deckhouse.io/v1alpha2
kind: NodeGroup
metadata:
  name: front
  creationTimestamp: 2024-01-01T00:00:00Z
spec:
  nodeType: Hybrid
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
"""


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    convert.add_command(parser.add_subparsers())
    options = parser.parse_args(["convert", *arguments])
    code: int = options.run(options)
    return code


def converted(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    assert run(*arguments) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "groups.yaml"
    path.write_text(MANIFEST)
    return path


def test_groups_are_converted_and_other_documents_passed_through(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group, other = converted(capsys, "-f", str(manifest), "--to", "v1")
    assert (group["apiVersion"], group["spec"]["nodeType"]) == ("deckhouse.io/v1", "CloudStatic")
    assert other["kind"] == "ConfigMap"


def test_the_provider_configuration_decides_about_hybrid_groups(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = tmp_path / "provider.yaml"
    provider.write_text("nodeGroups: [{name: front}]")
    found = converted(
        capsys, "-f", str(manifest), "--to", "deckhouse.io/v1", "--provider-config", str(provider)
    )
    assert found[0]["spec"]["nodeType"] == "CloudPermanent"


def test_there_and_back_gives_the_same_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "apiVersion": "deckhouse.io/v1",
        "kind": "NodeGroup",
        "metadata": {"name": "g"},
        "spec": {"nodeType": "CloudPermanent", "update": {"maxConcurrent": 3}},
    }
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps(document))
    run("-f", str(first), "--to", "v1alpha1", "-o", "json")
    second.write_text(capsys.readouterr().out)
    assert converted(capsys, "-f", str(second), "--to", "v1") == [document]


def test_unquoted_times_of_day_stay_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "window.yaml"
    window = "disruptions: {approvalMode: Automatic, automatic: {windows: [{from: 8:00, to: 18:30}]}}"
    path.write_text(MANIFEST.replace("nodeType: Hybrid", f"nodeType: Static\n  {window}"))
    group = converted(capsys, "-f", str(path), "--to", "v1")[0]
    assert group["spec"]["disruptions"]["automatic"]["windows"] == [{"from": "8:00", "to": "18:30"}]


@pytest.mark.parametrize(
    ("content", "target", "message"),
    [
        (MANIFEST, "v2", "unknown version v2: choose one of v1alpha1, v1alpha2, v1"),
        ("a: [", "v1", "not YAML"),
        (MANIFEST.replace("Hybrid", "7"), "v1", "document 0: convert to hub: failed to unmarshal v1alpha2"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: str, target: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as error:
        run("-f", str(path), "--to", target)
    assert message in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        run("-f", "/nonexistent.yaml", "--to", "v1")
