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
        ".gitignore": _GITIGNORE,
        ".github/workflows/ci.yaml": _WORKFLOW,
        "pyproject.toml": _PYPROJECT,
        "Makefile": _MAKEFILE,
        "Containerfile": _CONTAINERFILE,
        "README.md": _README,
        "src/$package/__init__.py": '"""The $project operator."""\n',
        "src/$package/operator.py": _OPERATOR,
        "deploy/base/kustomization.yaml": _BASE,
        "deploy/production/kustomization.yaml": _PRODUCTION,
        "deploy/chart/Chart.yaml": _CHART,
        "deploy/chart/values.yaml": _VALUES,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()} | kind_files(names)


def kind_files(names: Names) -> dict[str, str]:
    """A kind, its controller and their tests."""
    files = {
        "src/$package/$part/__init__.py": kind_module(names, has_webhook=False),
        "src/$package/$part/types.py": _TYPES,
        "src/$package/$part/controller.py": _CONTROLLER,
        "tests/test_$part.py": _TEST,
        "examples/$part.yaml": _EXAMPLE,
    }
    return {names.fill(path): names.fill(text) for path, text in files.items()}


def webhook_files(names: Names) -> dict[str, str]:
    """The webhooks of a kind and their tests; `kind_module` makes them known."""
    files = {"src/$package/$part/webhook.py": _WEBHOOK, "tests/test_${part}_webhook.py": _WEBHOOK_TEST}
    return {names.fill(path): names.fill(text) for path, text in files.items()}


def version_files(names: Names) -> dict[str, str]:
    """An older version of a kind, how it is converted, and the test that nothing is lost on the way."""
    files = {"src/$package/$part/$version.py": _VERSION, "tests/test_${part}_$version.py": _VERSION_TEST}
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

_PYPROJECT: Final = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "$project"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["quarterdeck"]

[project.entry-points."quarterdeck.operators"]
$project = "$package.operator:operator"

[dependency-groups]
dev = ["pytest>=8.3", "ruff>=0.9", "mypy>=1.14"]

[tool.hatch.build.targets.wheel]
packages = ["src/$package"]

[tool.pytest.ini_options]
pythonpath = ["src"]
testpaths = ["tests"]
quarterdeck_async = true

[tool.ruff]
line-length = 110
src = ["src"]

[tool.quarterdeck]
group = "$group"
"""

_MAKEFILE: Final = """\
IMAGE ?= $project:latest
NAMESPACE ?= $project-system
MANIFESTS = quarterdeck manifests --operators $project --namespace $$(NAMESPACE) --image $$(IMAGE)
PARTS = crds rbac webhooks deployment
CHART = quarterdeck manifests --operators $project --name '{{ .Release.Name }}' \\
	--namespace '{{ .Release.Namespace }}' --image '{{ .Values.image }}'

.PHONY: test check run manifests manifests-check image

test: ## tests, each on a cluster of its own
	pytest

check:
	ruff format --check .
	ruff check .
	mypy src

run: ## a cluster on this machine, with this operator in it
	quarterdeck up --operators $project --kubeconfig ./kubeconfig

manifests: ## what the classes declare, as YAML
	for part in $$(PARTS); do $$(MANIFESTS) --only $$$$part > deploy/base/$$$$part.yaml; done
	mkdir -p deploy/chart/crds deploy/chart/templates
	$$(MANIFESTS) --only crds > deploy/chart/crds/crds.yaml
	for part in rbac deployment; do $$(CHART) --only $$$$part > deploy/chart/templates/$$$$part.yaml; done

manifests-check: ## fails if they are out of date
	for part in $$(PARTS); do $$(MANIFESTS) --only $$$$part --check deploy/base/$$$$part.yaml || exit 1; done

image:
	docker build --file Containerfile --tag $$(IMAGE) .
"""

_CONTAINERFILE: Final = """\
FROM python:3.11-slim AS build
COPY . /project
RUN pip install --no-cache-dir --prefix /install /project

FROM python:3.11-slim
COPY --from=build /install /usr/local
USER 65532:65532
ENTRYPOINT []
CMD ["quarterdeck", "run", "--operators=$project"]
"""

_README: Final = """\
# $project

An operator for $kind, made with Quarterdeck.

```console
$$ pip install --editable . --group dev
$$ make test
$$ make run                                  # a cluster on this machine
$$ kubectl --kubeconfig ./kubeconfig apply -f examples/$part.yaml
$$ make manifests                            # after a change of the classes
$$ kubectl apply --server-side -k deploy/production
$$ helm install $project deploy/chart --namespace $project-system --create-namespace
```

Install Quarterdeck first, in the same environment. `quarterdeck new kind KIND`, `quarterdeck new webhook KIND`
and `quarterdeck new version KIND VERSION` add to it.
"""

_OPERATOR: Final = """\
\"\"\"The operator as `quarterdeck up`, `run` and `manifests` know it.\"\"\"

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import Resource, crd
from quarterdeck.runtime import KindOptions, Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.webhook import Conversion

from . import $part

PARTS = ($part,)


class ProjectOperator:
    name = "$project"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        return [crd(*part.VERSIONS) for part in PARTS]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        for part in PARTS:
            manager.add(part.controller())
        webhooks = tuple(webhook for part in PARTS for webhook in part.webhooks())
        converted = [part for part in PARTS if len(part.VERSIONS) > 1]
        for part in converted:
            manager.add_conversion(Conversion(*part.VERSIONS))
        return OperatorWebhooks(
            configuration="$project" if webhooks or converted else "",
            admission=webhooks,
            converted=tuple(crd(part.KIND)["metadata"]["name"] for part in converted),
        )


def operator() -> Operator:
    return ProjectOperator()
"""

_TYPES: Final = """\
\"\"\"What a $kind is. The CustomResourceDefinition is made from these classes.\"\"\"

from typing import Annotated

from quarterdeck.api import Column, Condition, Ge, ListMap, Model, Resource, Seq, omitempty


class ${kind}Spec(Model):
    \"\"\"What is asked for.\"\"\"

    size: Annotated[int, Ge(0)] = 1


class ${kind}Status(Model):
    \"\"\"What became of it.\"\"\"

    observed_generation: int = omitempty(0)
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class $kind(
    Resource,
    group="$group",
    version="$version",
    status=True,
    columns=[
        Column("Size", ".spec.size", "integer"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column.age(),
    ],
):
    \"\"\"Say here what it is for: `kubectl explain` shows it.\"\"\"

    spec: ${kind}Spec = ${kind}Spec()
    status: ${kind}Status = omitempty(${kind}Status())
"""

_CONTROLLER: Final = """\
\"\"\"What a $kind gets: a ConfigMap that says its size. Put your own children in its place.\"\"\"

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime import Builder, Context, Controller

from .types import $kind


def config_of(obj: $kind) -> ConfigMap:
    metadata = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace)
    return ConfigMap(metadata=metadata, data={"size": str(obj.spec.size)})


async def reconcile(ctx: Context[$kind]) -> None:
    await ctx.apply(config_of(ctx.obj), owner=ctx.obj)
    ctx.conditions.set("Ready", True, reason="InPlace")


def controller() -> Controller[$kind]:
    return Builder($kind).owns(ConfigMap).build(reconcile)
"""

_WEBHOOK: Final = """\
\"\"\"What is asked before a $kind is stored. What one object alone can tell belongs into its schema.\"\"\"

from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Defaulter, Denied, Validator

from .types import $kind


def fill(admission: Admission, obj: $kind) -> $kind:
    \"\"\"The object with what its author left out.\"\"\"
    return obj


def check(admission: Admission, obj: $kind) -> None:
    if obj.spec.size > 100:
        raise Denied("size must be at most 100")


def webhooks() -> tuple[AdmissionWebhook, ...]:
    return (Defaulter($kind, fill), Validator($kind, check))
"""

_TEST: Final = """\
\"\"\"$kind on a cluster of its own, in virtual time.\"\"\"

import pytest
from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, has_condition, run_until_idle

from $package.$part.controller import controller
from $package.$part.types import $kind, ${kind}Spec

pytestmark = pytest.mark.cluster(crds=[$kind])


async def test_it_gets_what_it_asks_for(cluster: TestCluster, manager: Manager) -> None:
    manager.add(controller())
    await cluster.start(manager)
    metadata = ObjectMeta(name="one", namespace="default")
    await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=3)))
    await run_until_idle(manager)
    assert (await cluster.client.get(ConfigMap, "one", "default")).data == {"size": "3"}
    assert has_condition(await cluster.client.get($kind, "one", "default"), "Ready")
"""

_WEBHOOK_TEST: Final = """\
\"\"\"The webhooks of $kind, called by the API server as in a cluster.\"\"\"

import pytest
from quarterdeck.api import ObjectMeta
from quarterdeck.errors import Forbidden
from quarterdeck.testing import TestCluster

from $package.$part import webhooks
from $package.$part.types import $kind, ${kind}Spec

pytestmark = pytest.mark.cluster(crds=[$kind])


async def test_what_is_too_big_is_refused(cluster: TestCluster) -> None:
    await cluster.serve_webhooks(*webhooks())
    metadata = ObjectMeta(name="one", namespace="default")
    with pytest.raises(Forbidden, match="size must be at most 100"):
        await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=101)))
    await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=100)))
"""

_EXAMPLE: Final = """\
apiVersion: $group/$version
kind: $kind
metadata:
  name: example
  namespace: default
spec:
  size: 3
"""

_BASE: Final = """\
# The other files here are printed by `make manifests`. webhooks.yaml is not listed: the program registers its
# webhooks when it serves them. Add it if your certificates come from elsewhere (run --webhook-certificates).
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - namespace.yaml
  - crds.yaml
  - rbac.yaml
  - deployment.yaml
"""

_PRODUCTION: Final = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../base
images:
  - name: $project
    newTag: latest
replicas:
  - name: quarterdeck
    count: 2
"""

_GITIGNORE: Final = """\
.venv/
__pycache__/
*.egg-info/
.mypy_cache/
.ruff_cache/
.pytest_cache/
build/
dist/
kubeconfig
"""

_WORKFLOW: Final = """\
name: ci
on: [push, pull_request]
permissions: {contents: read}
jobs:
  test:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.14"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "$${{ matrix.python }}"}
      - run: pip install --editable . --group dev
      - run: make check
      - run: make test
      - run: make manifests-check
"""

_CHART: Final = """\
apiVersion: v2
name: $project
description: The $project operator
type: application
version: 0.1.0
appVersion: 0.1.0
"""

_VALUES: Final = """\
image: $project:latest
"""

_VERSION: Final = """\
\"\"\"$kind as $version had it: its clients go on reading and writing it. Make it differ, and convert.\"\"\"

from typing import Annotated

from quarterdeck.api import Ge, Model, Resource, omitempty

from . import types as hub


class ${kind}Spec(Model):
    \"\"\"What is asked for.\"\"\"

    size: Annotated[int, Ge(0)] = 1


class $kind(Resource, group="$group", version="$version", storage=False, status=True):
    \"\"\"An older version.\"\"\"

    spec: ${kind}Spec = ${kind}Spec()
    status: hub.${kind}Status = omitempty(hub.${kind}Status())

    def to_hub(self) -> hub.$kind:
        spec = hub.${kind}Spec(size=self.spec.size)
        return hub.$kind(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, obj: hub.$kind) -> "$kind":
        return cls(metadata=obj.metadata, spec=${kind}Spec(size=obj.spec.size), status=obj.status)
"""

_VERSION_TEST: Final = """\
\"\"\"Nothing is lost between the versions of $kind.\"\"\"

from quarterdeck.runtime.webhook import Conversion, assert_roundtrip

from $package.$part import KIND, $version


def test_objects_survive_the_way_there_and_back() -> None:
    assert_roundtrip(Conversion(KIND, $version.$kind))
"""
