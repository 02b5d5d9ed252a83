"""What the chart and the Kustomize base take from the program: ``python tools/chart.py`` (``make chart``).

Definitions, permissions, webhooks and variables follow from the classes, so they are made and not kept: the
files are written into ``deploy/chart/files`` and ``deploy/kustomize/base``, which git ignores. The chart puts
names in place of RELEASE_NAME and RELEASE_NAMESPACE.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from grafana import dashboards
from quarterdeck import __version__
from quarterdeck.api.manifest import load_documents
from quarterdeck.cli import manifests
from quarterdeck.runtime.operator import Operator, installed_operators

ROOT = Path(__file__).resolve().parent.parent
NAME, NAMESPACE = "RELEASE_NAME", "RELEASE_NAMESPACE"
VERSIONED = {
    "chart/Chart.yaml": r"^(version: |appVersion: ).*$",
    "kustomize/production/kustomization.yaml": r"^( +newTag: ).*$",
}
OURS = ("grove", "ipam", "jobset", "kai", "nodegroup", "trainer")
Json = dict[str, Any]


def main() -> int:
    _set_version()
    chart, base = ROOT / "deploy" / "chart" / "files", ROOT / "deploy" / "kustomize" / "base"
    shutil.rmtree(chart, ignore_errors=True)
    operators = installed_operators()
    for name in OURS:
        for kind, text in chart_files(operators[name]).items():
            _write(chart / kind / f"{name}.yaml", text)
    _write(chart / "alerts.yaml", alerts())
    for name, dashboard in dashboards().items():
        _write(chart / "dashboards" / f"{name}.json", json.dumps(dashboard, indent=1) + "\n")
    for part in ("crds", "rbac", "deployment"):
        arguments = _arguments(name=manifests.NAME, namespace="quarterdeck-system", only=part)
        _write(base / f"{part}.yaml", manifests.render(arguments, [operators[name] for name in OURS]))
    return 0


def _set_version() -> None:
    """The package's version, where a chart and an image have it."""
    for file, pattern in VERSIONED.items():
        path = ROOT / "deploy" / file
        path.write_text(re.sub(pattern, rf"\g<1>{__version__}", path.read_text(), flags=re.MULTILINE))


def chart_files(operator: Operator) -> dict[str, str]:
    """The files of one operator, by kind."""
    program = manifests.program_of(NAMESPACE, [operator], {}, name=NAME)
    definitions = [_kept(dict(each)) for each in operator.definitions()]
    variables = {key: value for part in program.registrations for key, value in part.variables.items()}
    return {
        "crds": _dump(definitions),
        "rbac": _dump(_roles(operator, "rbac")),
        "webhooks": _dump([_injected(each) for each in _documents(operator, "webhooks")]),
        "env": "".join(f"- {json.dumps({'name': key, 'value': value})}\n" for key, value in variables.items())
        or "# none\n",
    }


def _documents(operator: Operator, part: str) -> list[Json]:
    text = manifests.render(_arguments(name=NAME, namespace=NAMESPACE, only=part), [operator])
    return [*load_documents(text)]


def _roles(operator: Operator, part: str) -> list[Json]:
    """Roles and bindings of the operator's own; the account is the chart's."""
    found = [each for each in _documents(operator, part) if each["kind"] != "ServiceAccount"]
    for each in found:
        each["metadata"]["name"] = f"{NAME}-{operator.name}"
        if "roleRef" in each:
            each["roleRef"]["name"] = f"{NAME}-{operator.name}"
    return found


def _kept(definition: Json) -> Json:
    metadata = definition["metadata"]
    annotations = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    return {**definition, "metadata": {**metadata, "annotations": annotations}}


def _injected(configuration: Json) -> Json:
    note = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{NAME}"}
    return {**configuration, "metadata": {**configuration["metadata"], "annotations": note}}


def alerts() -> str:
    """The alert rules of deploy/monitoring.yaml, for the namespace of the release."""
    text = (ROOT / "deploy" / "monitoring.yaml").read_text()
    [rules] = [each for each in load_documents(text) if each["kind"] == "PrometheusRule"]
    return yaml.safe_dump(rules["spec"], sort_keys=False).replace("quarterdeck-system", NAMESPACE)


def _arguments(**values: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **{"image": "quarterdeck:latest", "replicas": 2, "config": None, "watch_namespaces": (), **values}
    )


def _dump(documents: list[Json]) -> str:
    return yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
