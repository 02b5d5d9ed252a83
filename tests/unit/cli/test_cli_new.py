"""What `quarterdeck new` writes runs, and says what it declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from quarterdeck.cli import scaffold
from quarterdeck.cli.main import main


@pytest.fixture
def project(tmp_path: Path) -> Path:
    command = ["new", "project", "fleet-ops", "--kind", "Ship", "--group", "sea.example.io"]
    assert main([*command, "--directory", str(tmp_path)]) == 0
    return tmp_path / "fleet-ops"


def run(project: Path, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def documents(project: Path, part: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all((project / "deploy/base" / f"{part}.yaml").read_text()))


def test_a_new_project_passes_its_own_tests_and_checks(project: Path) -> None:
    assert main(["new", "kind", "Harbour", "--directory", str(project)]) == 0
    assert main(["new", "webhook", "Ship", "--directory", str(project)]) == 0
    assert main(["new", "version", "Ship", "v1beta1", "--directory", str(project)]) == 0
    assert main(["new", "version", "Harbour", "v1alpha2", "--directory", str(project)]) == 0
    shown = (project / "src/fleet_ops/ship/__init__.py").read_text()
    assert "VERSIONS = (Ship, v1beta1.Ship)\n" in shown
    assert "from .webhook import webhooks\n" in shown
    operator = (project / "src/fleet_ops/operator.py").read_text()
    assert "from . import harbour, ship\n" in operator
    assert "PARTS = (ship, harbour)\n" in operator
    run(project, "pytest", "-q", "-p", "no:cacheprovider")
    run(project, "ruff", "format", "--no-cache", "--check", ".")
    run(project, "ruff", "check", "--no-cache", ".")


def test_a_new_project_comes_with_what_a_cluster_needs(project: Path) -> None:
    [definition] = documents(project, "crds")
    assert definition["metadata"] == {"name": "ships.sea.example.io"}
    assert [each["kind"] for each in documents(project, "rbac")] == [
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ]
    [service, deployment] = documents(project, "deployment")
    assert (service["kind"], deployment["kind"]) == ("Service", "Deployment")
    assert "--operators=fleet-ops" in str(deployment)
    assert documents(project, "webhooks") == []
    base = yaml.safe_load((project / "deploy/base/kustomization.yaml").read_text())
    assert all((project / "deploy/base" / file).exists() for file in base["resources"])
    assert {"Makefile", "Containerfile", "pyproject.toml"} <= {each.name for each in project.iterdir()}
    assert "fleet_ops" not in sys.modules


def test_files_that_are_there_are_never_overwritten(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "project", "fleet-ops", "--kind", "Ship", "--directory", str(project.parent)]) == 1
    assert capsys.readouterr().err == f"quarterdeck: {project} exists already\n"
    assert main(["new", "kind", "Ship", "--directory", str(project)]) == 1
    assert "src/fleet_ops/ship/__init__.py exists already" in capsys.readouterr().err
    assert main(["new", "webhook", "Whale", "--directory", str(project)]) == 1
    assert "the project has no kind Whale" in capsys.readouterr().err


def test_files_of_ones_own_are_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operator = project / "src/fleet_ops/operator.py"
    module = project / "src/fleet_ops/ship/__init__.py"
    for file in (operator, module):
        file.write_text("# mine\n")
    assert main(["new", "kind", "Harbour", "--directory", str(project)]) == 0
    assert main(["new", "webhook", "Ship", "--directory", str(project)]) == 0
    said = capsys.readouterr().out
    assert f"{operator} is your own: add the kind harbour.KIND and harbour.controller() to it" in said
    assert f"{module} is your own: import webhooks from .webhook there" in said
    assert operator.read_text() == module.read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["project", "Fleet", "--kind", "Ship"], "'Fleet' is no name for a project"),
        (["project", "fleet", "--kind", "ship"], "'ship' is no kind: write it in CamelCase"),
        (["project", "json", "--kind", "Ship"], "there is a package json already"),
        (["kind", "Ship"], "is no project made by quarterdeck new project"),
    ],
)
def test_names_that_cannot_be_used_are_refused(
    command: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *command, "--directory", str(tmp_path)]) == 1
    assert problem in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_kind_is_listed_once() -> None:
    once = scaffold.with_part("from . import ship\n\nPARTS = (ship,)\n", "ship")
    assert once == "from . import ship\n\nPARTS = (ship,)\n"


def test_a_new_project_installs_as_it_is_and_its_chart_renders(project: Path, tmp_path: Path) -> None:
    names = {each.relative_to(project).as_posix() for each in project.rglob("*") if each.is_file()}
    assert {
        ".gitignore",
        ".github/workflows/ci.yaml",
        "deploy/chart/Chart.yaml",
        "deploy/chart/values.yaml",
    } <= names
    yaml.safe_load((project / ".github/workflows/ci.yaml").read_text())
    deployment = (project / "deploy/chart/templates/deployment.yaml").read_text()
    assert "--name={{ .Release.Name }}" in deployment
    target = tmp_path / "installed"
    options = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--target", str(target)]
    run(project, "pip", "install", *options, ".")
    assert (target / "fleet_ops" / "operator.py").exists()


def test_the_stored_version_is_no_other_version(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "version", "Ship", "v1alpha1", "--directory", str(project)]) == 1
    assert "v1alpha1 is the stored version of Ship" in capsys.readouterr().err
    assert main(["new", "version", "Ship", "one", "--directory", str(project)]) == 1
    assert "'one' is no version" in capsys.readouterr().err
