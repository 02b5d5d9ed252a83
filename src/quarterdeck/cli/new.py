"""`quarterdeck new`: the files of an operator, a kind, a webhook."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import manifests, scaffold
from .error import CommandError
from .scaffold import Names

if TYPE_CHECKING:
    from quarterdeck.runtime.operator import Operator

_CHART = {
    "name": "{{ .Release.Name }}",
    "namespace": "{{ .Release.Namespace }}",
    "image": "{{ .Values.image }}",
}
"""Names that helm puts in."""
_PROJECT = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_ENTRY_POINTS = "quarterdeck.operators"


def add_command(commands: Any) -> None:
    parser = commands.add_parser("new", help="write the files of an operator project, a kind, a webhook")
    things = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    project = things.add_parser("project", help="package, tests, manifests, task file, container file")
    project.add_argument("name", metavar="NAME", help="letters, digits and dashes; a folder of that name")
    project.add_argument("--kind", required=True, help="its first kind, in CamelCase")
    project.add_argument("--group", default="example.io", help="API group (default: %(default)s)")
    project.add_argument("--version", default="v1alpha1", help="API version (default: %(default)s)")
    project.add_argument("--directory", type=Path, default=Path(), help="where (default: here)")
    project.set_defaults(run=new_project)
    kind = things.add_parser("kind", help="one more kind with its controller, in a project")
    kind.add_argument("kind", metavar="KIND", help="in CamelCase")
    kind.add_argument("--version", default="v1alpha1", help="API version (default: %(default)s)")
    kind.add_argument("--directory", type=Path, default=Path(), help="the project (default: here)")
    kind.set_defaults(run=new_kind)
    webhook = things.add_parser("webhook", help="a defaulting and a validating webhook of a kind")
    webhook.add_argument("kind", metavar="KIND", help="a kind of the project")
    webhook.add_argument("--directory", type=Path, default=Path(), help="the project (default: here)")
    webhook.set_defaults(run=new_webhook)
    version = things.add_parser("version", help="an older version of a kind, with its conversion")
    version.add_argument("kind", metavar="KIND", help="a kind of the project")
    version.add_argument("version", metavar="VERSION", help="such as v1alpha1; not the one that is stored")
    version.add_argument("--directory", type=Path, default=Path(), help="the project (default: here)")
    version.set_defaults(run=new_version)


def new_project(arguments: argparse.Namespace) -> int:
    if not _PROJECT.fullmatch(arguments.name):
        raise CommandError(f"{arguments.name!r} is no name for a project: use a-z, 0-9 and single dashes")
    names = Names(
        project=arguments.name,
        group=arguments.group,
        version=arguments.version,
        kind=_checked_kind(arguments.kind),
    )
    if importlib.util.find_spec(names.package) is not None:
        raise CommandError(f"there is a package {names.package} already: choose another name")
    root: Path = arguments.directory / names.project
    if root.exists():
        raise CommandError(f"{root} exists already")
    _write(root, scaffold.project_files(names))
    _write(root, _manifests(root, names))
    return 0


def new_kind(arguments: argparse.Namespace) -> int:
    names = _project_names(arguments.directory, _checked_kind(arguments.kind), arguments.version)
    _write(arguments.directory, scaffold.kind_files(names))
    operator = arguments.directory / "src" / names.package / "operator.py"
    changed = scaffold.with_part(operator.read_text(), names.part) if operator.exists() else None
    if changed is None:
        print(f"{operator} is your own: add the kind {names.part}.KIND and {names.part}.controller() to it")
    else:
        operator.write_text(changed)
        print(f"changed {operator}")
    print("then: make manifests")
    return 0


def new_webhook(arguments: argparse.Namespace) -> int:
    names = _project_names(arguments.directory, _checked_kind(arguments.kind), "")
    module = _module_of(arguments.directory, names)
    _write(arguments.directory, scaffold.webhook_files(names))
    _rewrite(module, names, "import webhooks from .webhook there")
    return 0


def new_version(arguments: argparse.Namespace) -> int:
    if not _VERSION.fullmatch(arguments.version):
        raise CommandError(f"{arguments.version!r} is no version: write v1, v1beta1 or v2alpha1")
    names = _project_names(arguments.directory, _checked_kind(arguments.kind), arguments.version)
    module = _module_of(arguments.directory, names)
    types = (module.parent / "types.py").read_text()
    if f'version="{arguments.version}"' in types:
        raise CommandError(f"{arguments.version} is the stored version of {names.kind}: name another")
    _write(arguments.directory, scaffold.version_files(names))
    _rewrite(module, names, f"add {arguments.version}.{names.kind} to VERSIONS there")
    return 0


def _module_of(root: Path, names: Names) -> Path:
    module = root / "src" / names.package / names.part / "__init__.py"
    if not module.exists():
        raise CommandError(f"the project has no kind {names.kind}: quarterdeck new kind {names.kind}")
    return module


def _rewrite(module: Path, names: Names, advice: str) -> None:
    """Make known what was written, in a module that is still as it was made."""
    versions = sorted(each.stem for each in module.parent.glob("v*.py") if _VERSION.fullmatch(each.stem))
    has_webhook = (module.parent / "webhook.py").exists()
    made = {
        scaffold.kind_module(names, has_webhook=webhook, versions=some)
        for webhook in (False, True)
        for some in [[each for each in versions if each != left] for left in ("", *versions)]
    }
    if module.read_text() in made:
        module.write_text(scaffold.kind_module(names, has_webhook=has_webhook, versions=versions))
        print(f"changed {module}")
    else:
        print(f"{module} is your own: {advice}")
    print("then: make manifests")


def _checked_kind(kind: str) -> str:
    if not _KIND.fullmatch(kind):
        raise CommandError(f"{kind!r} is no kind: write it in CamelCase")
    return kind


def _project_names(root: Path, kind: str, version: str) -> Names:
    """The names of the project in a folder; raises CommandError if there is none."""
    try:
        document = tomllib.loads((root / "pyproject.toml").read_text())
        project = next(iter(document["project"]["entry-points"][_ENTRY_POINTS]))
        group = document["tool"]["quarterdeck"]["group"]
    except (OSError, KeyError, StopIteration, tomllib.TOMLDecodeError) as error:
        raise CommandError(f"{root.resolve()} is no project made by quarterdeck new project") from error
    return Names(project=project, group=group, version=version, kind=kind)


def _write(root: Path, files: Mapping[str, str]) -> None:
    """Write files that are not there yet; raises CommandError before the first if one is."""
    for path in files:
        if (root / path).exists():
            raise CommandError(f"{root / path} exists already")
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        print(f"wrote {file}")


def _manifests(root: Path, names: Names) -> dict[str, str]:
    """What the new operator declares, as `make manifests` prints it."""
    arguments = argparse.Namespace(
        namespace=f"{names.project}-system",
        name=names.project,
        image=f"{names.project}:latest",
        replicas=2,
        config=None,
        watch_namespaces=(),
    )
    files = {
        "deploy/base/namespace.yaml": f"apiVersion: v1\nkind: Namespace\n"
        f"metadata:\n  name: {arguments.namespace}\n"
    }
    with _loaded(root, names.package) as operator:
        for part in manifests.PARTS:
            arguments.only = part
            files[f"deploy/base/{part}.yaml"] = manifests.render(arguments, [operator])
        chart = argparse.Namespace(**{**vars(arguments), **_CHART})
        for part, folder in (("crds", "crds"), ("rbac", "templates"), ("deployment", "templates")):
            chart.only = part
            files[f"deploy/chart/{folder}/{part}.yaml"] = manifests.render(chart, [operator])
    return files


@contextmanager
def _loaded(root: Path, package: str) -> Iterator[Operator]:
    """The operator of a project that is not installed."""
    folder = str((root / "src").resolve())
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(f"{package}.operator").operator()
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
