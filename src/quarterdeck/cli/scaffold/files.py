"""What `quarterdeck new` writes: the files of an operator project, as texts by path.

Pure: names in, files out. A project has one package with a folder per kind (`types`, `controller` and, if it
has any, `webhook`) and an `operator` module that lists the folders. Nothing is generated when it is built:
definitions, permissions and manifests follow from the classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template
from typing import Final

import msgspec

from . import kindtext, projecttext


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a project and one kind of it are called."""

    project: str
    """As in `--operators`: letters, digits and dashes."""
    group: str
    version: str
    kind: str

    @property
    def package(self) -> str:
        """The name to import."""
        return self.project.replace("-", "_")

    @property
    def part(self) -> str:
        """The folder of the kind."""
        return self.kind.lower()

    def fill(self, text: str) -> str:
        """A template with the names put in."""
        return Template(text).substitute(
            project=self.project,
            package=self.package,
            group=self.group,
            version=self.version,
            kind=self.kind,
            part=self.part,
        )


def project_files(names: Names) -> dict[str, str]:
    """A new project with one kind, without the manifests that its operator tells."""
    files = {
        ".gitignore": projecttext.GITIGNORE,
        ".github/workflows/ci.yaml": projecttext.WORKFLOW,
        "pyproject.toml": projecttext.PYPROJECT,
        "Makefile": projecttext.MAKEFILE,
        "Containerfile": projecttext.CONTAINERFILE,
        "README.md": projecttext.README,
        "src/$package/__init__.py": '"""The $project operator."""\n',
        "src/$package/operator.py": projecttext.OPERATOR,
        "deploy/base/kustomization.yaml": projecttext.BASE,
        "deploy/production/kustomization.yaml": projecttext.PRODUCTION,
        "deploy/chart/Chart.yaml": projecttext.CHART,
        "deploy/chart/values.yaml": projecttext.VALUES,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()} | kind_files(names)


def kind_files(names: Names) -> dict[str, str]:
    """A kind, its controller and their tests."""
    files = {
        "src/$package/$part/__init__.py": kind_module(names, has_webhook=False),
        "src/$package/$part/types.py": kindtext.TYPES,
        "src/$package/$part/controller.py": kindtext.CONTROLLER,
        "tests/test_$part.py": kindtext.TEST,
        "examples/$part.yaml": kindtext.EXAMPLE,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()}


def webhook_files(names: Names) -> dict[str, str]:
    """The webhooks of a kind and their tests; `kind_module` makes them known."""
    files = {
        "src/$package/$part/webhook.py": kindtext.WEBHOOK,
        "tests/test_${part}_webhook.py": kindtext.WEBHOOK_TEST,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()}


def version_files(names: Names) -> dict[str, str]:
    """An older version of a kind, how it is converted, and the test that nothing is lost on the way."""
    files = {
        "src/$package/$part/$version.py": kindtext.VERSION,
        "tests/test_${part}_$version.py": kindtext.VERSION_TEST,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()}


def kind_module(names: Names, *, has_webhook: bool, versions: Sequence[str] = ()) -> str:
    """What a kind shows to the operator module; ``versions`` are those beside the stored one."""
    imports = ["from quarterdeck.runtime.webhook import AdmissionWebhook", ""] if not has_webhook else []
    imports += [f"from . import {', '.join(sorted(versions))}"] if versions else []
    imports += ["from .controller import controller", "from .types import $kind"]
    imports += ["from .webhook import webhooks"] if has_webhook else []
    others = "".join(f", {version}.$kind" for version in versions)
    lines = [
        '"""$kind: its versions, its controller, its webhooks."""',
        "",
        *imports,
        "",
        '__all__ = ["KIND", "VERSIONS", "controller", "webhooks"]',
        "",
        "KIND = $kind",
        f"VERSIONS = ($kind{others or ','})",
    ]
    if not has_webhook:
        lines += ["", "", "def webhooks() -> tuple[AdmissionWebhook, ...]:", "    return ()"]
    return names.fill("\n".join(lines) + "\n")


def with_part(operator: str, part: str) -> str | None:
    """The operator module with one more kind; ``None`` if somebody gave it another form."""
    imported, listed = _IMPORT.search(operator), _PARTS.search(operator)
    if imported is None or listed is None:
        return None
    parts = [each.strip() for each in listed["parts"].split(",") if each.strip()]
    parts += [] if part in parts else [part]
    changed = _IMPORT.sub(f"from . import {', '.join(sorted(parts))}", operator)
    return _PARTS.sub(
        f"PARTS = ({', '.join(parts)},)" if len(parts) == 1 else f"PARTS = ({', '.join(parts)})", changed
    )


_IMPORT: Final = re.compile(r"^from \. import (?P<parts>[\w, ]+)$", re.MULTILINE)
_PARTS: Final = re.compile(r"^PARTS = \((?P<parts>[\w, ]*)\)$", re.MULTILINE)
