"""What `quarterdeck manifests` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.api.manifest import load_documents
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
    [deployment] = [each for each in load_documents(capsys.readouterr().out) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    [mount] = container["volumeMounts"]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    assert (mount["mountPath"], volume["emptyDir"]["medium"]) == ("/tmp", "Memory")


def test_the_role_lets_the_program_ask_who_reads_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "--operators", "nodegroup", "--only", "rbac"]) == 0
    [role] = [each for each in load_documents(capsys.readouterr().out) if each["kind"] == "ClusterRole"]
    created = {name for rule in role["rules"] if "create" in rule["verbs"] for name in rule["resources"]}
    assert {"tokenreviews", "subjectaccessreviews"} <= created


def test_webhook_configurations_are_printed_for_those_who_register_them_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["manifests", "--operators", "ipam", "--namespace", "nets", "--only", "webhooks"]) == 0
    [configuration] = load_documents(capsys.readouterr().out)
    assert configuration["kind"] == "ValidatingWebhookConfiguration"
    for webhook in configuration["webhooks"]:
        service = webhook["clientConfig"]["service"]
        assert (service["name"], service["namespace"], service["port"]) == (
            "quarterdeck-webhook",
            "nets",
            443,
        )
    assert main(["manifests", "--operators", "ipam"]) == 0
    kinds = [each["kind"] for each in load_documents(capsys.readouterr().out)]
    assert "Deployment" in kinds
    assert "ValidatingWebhookConfiguration" not in kinds  # nobody would answer yet


def test_the_deployment_has_the_variables_of_its_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("operators: {grove: {authorizer: {enabled: true}}}")
    monkeypatch.setenv("GROVE_INIT_CONTAINER_IMAGE", "registry.example.io/grove-initc")
    command = ["manifests", "--operators", "grove", "--only", "deployment", "--config", str(config)]
    assert main(command) == 0
    [deployment] = [each for each in load_documents(capsys.readouterr().out) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"] == [
        {"name": "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "value": pod["serviceAccountName"]},
        {"name": "GROVE_INIT_CONTAINER_IMAGE", "value": "registry.example.io/grove-initc"},
    ]


def test_an_installation_for_some_namespaces_has_roles_there_and_webhooks_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["manifests", "--operators", "grove", "--namespace", "sys", "--watch-namespaces", "a,b"]
    assert main(words) == 0
    found = load_documents(capsys.readouterr().out)
    named = {
        (each["kind"], each["metadata"].get("namespace", "")): each["metadata"]["name"] for each in found
    }
    name = "quarterdeck.sys.quarterdeck"
    assert {key[1] for key in named if key[0] == "Role"} == {"a", "b", "default", "sys"}
    assert {named[key] for key in named if key[0].endswith(("Role", "RoleBinding"))} == {name}
    for each in found:
        if each["kind"] == "ClusterRole":
            resources = {resource for rule in each["rules"] for resource in rule["resources"]}
            assert "priorityclasses" in resources
            assert not {"pods", "podgangs", "secrets"} & resources
        if each["kind"] == "Deployment":
            [container] = each["spec"]["template"]["spec"]["containers"]
            assert "--watch-namespaces=a,b" in container["command"]
    assert main([*words, "--only", "webhooks"]) == 0
    for each in load_documents(capsys.readouterr().out):
        assert each["metadata"]["name"].endswith(".sys.quarterdeck")
        for webhook in each["webhooks"]:
            [term] = webhook["namespaceSelector"]["matchExpressions"]
            assert term["values"] == ["a", "b"]
