"""What `quarterdeck manifests` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from quarterdeck.cli.main import main


def test_settings_of_an_operator_that_does_not_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("operators: {nobody: {}}")
    assert main(["manifests", "--only", "rbac", "--config", str(config)]) == 1
    assert capsys.readouterr().err == "quarterdeck: settings for operators that do not run: nobody\n"


def test_a_pod_without_a_writable_disk_has_a_place_for_the_files_of_its_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["manifests", "--only", "deployment"]) == 0
    [deployment] = [
        each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] == "Deployment"
    ]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    [mount] = container["volumeMounts"]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert (mount["mountPath"], volume["emptyDir"]["medium"]) == ("/tmp", "Memory")
