"""`quarterdeck manifests`: what a cluster needs to run the operators, as YAML."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .error import CommandError
from .operators import add_operator_arguments, chosen_operators, operator_settings

NAME = "quarterdeck"
PORTS = {"webhooks": 9443, "metrics": 8080, "probes": 8081}
DESCRIPTION = """\
Print the objects that run the operators in a cluster: definitions, namespace, permissions (derived from what
the controllers declare, no more), webhook Service and the Deployment. The webhook configurations are
registered by the running program, which knows the certificate.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "manifests", help="definitions, permissions and Deployment as YAML", description=DESCRIPTION
    )
    add_operator_arguments(parser)
    parser.add_argument("--namespace", default="quarterdeck-system", help="default: %(default)s")
    parser.add_argument("--image", default="quarterdeck:latest", help="image of the Deployment")
    parser.add_argument("--replicas", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--only", choices=("crds", "rbac", "deployment"), help="just this part")
    parser.add_argument("--check", type=Path, metavar="FILE", help="fail if FILE differs from the output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    operators = chosen_operators(arguments)
    if not operators:
        raise CommandError("no operators to print manifests for")
    from quarterdeck.errors import ConfigError

    try:
        documents = _documents(arguments, operators)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    if arguments.check is None:
        print(text, end="")
        return 0
    try:
        found = arguments.check.read_text()
    except OSError as error:
        raise CommandError(f"{arguments.check}: {error.strerror}") from error
    if found == text:
        return 0
    names = (str(arguments.check), "quarterdeck manifests")
    changes = difflib.unified_diff(found.splitlines(True), text.splitlines(True), *names)
    sys.stdout.writelines(changes)
    return 1


def _documents(arguments: argparse.Namespace, operators: list[Any]) -> list[dict[str, Any]]:
    parts = {
        "crds": [dict(each) for operator in operators for each in operator.definitions()],
        "rbac": _permissions(arguments.namespace, operators, operator_settings(arguments)),
        "deployment": _deployment(arguments, [operator.name for operator in operators]),
    }
    if arguments.only:
        return parts[arguments.only]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": arguments.namespace}}
    return [namespace, *(document for part in parts.values() for document in part)]


def _permissions(
    namespace: str, operators: list[Any], settings: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Service account, roles and bindings."""
    from quarterdeck.client import Config
    from quarterdeck.runtime.election import LeaderElection
    from quarterdeck.runtime.program import Program, ProgramOptions
    from quarterdeck.runtime.rbac import roles

    options = ProgramOptions(
        namespace=namespace,
        settings=settings,
        leader_election=LeaderElection(name=NAME, namespace=namespace),
    )
    # Nothing connects before a program runs: it is only asked what it would need.
    program = Program(Config(server="https://127.0.0.1"), operators, options)
    account = {"name": NAME, "namespace": namespace}
    documents = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}]
    for role in roles(NAME, program.manager.rules()):
        document = role.to_dict()
        kind, metadata = document["kind"], document["metadata"]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        documents += [document, binding]
    return documents


def _deployment(arguments: argparse.Namespace, operators: list[str]) -> list[dict[str, Any]]:
    labels = {"app.kubernetes.io/name": NAME}
    metadata = {"name": NAME, "namespace": arguments.namespace, "labels": labels}
    command = [
        "quarterdeck",
        "run",
        f"--operators={','.join(operators)}",
        f"--namespace={arguments.namespace}",
        "--webhook-host=0.0.0.0",
        f"--webhook-port={PORTS['webhooks']}",
        f"--metrics-address=:{PORTS['metrics']}",
        f"--health-address=:{PORTS['probes']}",
    ]
    container = {
        "name": NAME,
        "image": arguments.image,
        "command": command,
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "probes"}, "initialDelaySeconds": 15},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        # TLS libraries load keys from files only: a place for them that is not a disk.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": arguments.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": NAME,
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                },
            },
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "name": "quarterdeck-webhook"},
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": "webhooks"}]},
    }
    return [service, deployment]
