"""The files of a new project, as templates."""

from typing import Final

PYPROJECT: Final = """\
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

[project.optional-dependencies]
dev = ["pytest>=8.3", "ruff>=0.9", "mypy>=1.14"]

[tool.hatch.build.targets.wheel]
packages = ["src/$package"]

[tool.pytest.ini_options]
pythonpath = ["src"]
testpaths = ["tests"]
quarterdeck_async = true

[tool.mypy]
plugins = ["quarterdeck.mypy_plugin"]

[tool.ruff]
line-length = 110
src = ["src"]

[tool.quarterdeck]
group = "$group"
"""

MAKEFILE: Final = """\
IMAGE ?= $project:latest
NAMESPACE ?= $project-system
MANIFESTS = quarterdeck manifests --operators $project --name $project \\
	--namespace $$(NAMESPACE) --image $$(IMAGE)
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

CONTAINERFILE: Final = """\
FROM python:3.11-slim AS build
COPY . /project
RUN pip install --no-cache-dir --prefix /install /project

FROM python:3.11-slim
COPY --from=build /install /usr/local
USER 65532:65532
ENTRYPOINT []
CMD ["quarterdeck", "run", "--operators=$project", "--name=$project", "--namespace=$project-system"]
"""

README: Final = """\
# $project

An operator for $kind, made with Quarterdeck.

```console
$$ pip install --editable '.[dev]'
$$ make test
$$ make run                                  # a cluster on this machine
$$ kubectl --kubeconfig ./kubeconfig apply -f examples/$part.yaml
$$ make manifests                            # after a change of the classes
$$ kubectl apply --server-side -k deploy/production
$$ helm install $project deploy/chart --namespace $project-system --create-namespace
```

Install Quarterdeck first, in the same environment. Everything in the cluster is named after the project.
`quarterdeck new kind KIND`, `quarterdeck new webhook KIND` and `quarterdeck new version KIND VERSION` add
to it.
"""

OPERATOR: Final = """\
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

BASE: Final = """\
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

PRODUCTION: Final = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - ../base
images:
  - name: $project
    newTag: latest
replicas:
  - name: $project
    count: 2
"""

GITIGNORE: Final = """\
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

WORKFLOW: Final = """\
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
      - run: pip install --editable '.[dev]'
      - run: make check
      - run: make test
      - run: make manifests-check
"""

CHART: Final = """\
apiVersion: v2
name: $project
description: The $project operator
type: application
version: 0.1.0
appVersion: 0.1.0
"""

VALUES: Final = """\
image: $project:latest
"""
