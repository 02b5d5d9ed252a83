"""`quarterdeck manifests`: what a cluster needs to run the operators, as YAML."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .error import CommandError
from .operators import add_operator_arguments, add_watch_namespaces, chosen_operators, settings_of

if TYPE_CHECKING:
    from quarterdeck.runtime.operator import Operator
    from quarterdeck.runtime.operator.program import Program

NAME = "quarterdeck"
PARTS = ("crds", "rbac", "webhooks", "deployment")
PORTS = {"webhooks": 9443, "metrics": 8080, "probes": 8081}
METRICS_ADDRESS = f":{PORTS['metrics']}"
DESCRIPTION = """\
Print the objects that run the operators in a cluster: CRDs, namespace, permissions (only those that the
controllers declare), webhook Service and the Deployment. The running program registers the webhook
configurations, because it knows the certificate; `--only webhooks` prints them for clusters whose
certificates come from elsewhere.
"""


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "manifests", help="print CRDs, permissions and Deployment as YAML", description=DESCRIPTION
    )
    add_operator_arguments(parser)
    parser.add_argument(
        "--namespace",
        default="quarterdeck-system",
        help="namespace of the installation (default: %(default)s)",
    )
    parser.add_argument(
        "--name",
        default=NAME,
        help="name of the installation: of its Deployment, Service, roles and Lease (default: %(default)s)",
    )
    add_watch_namespaces(parser)
    parser.add_argument(
        "--image", default="quarterdeck:latest", help="image of the Deployment (default: %(default)s)"
    )
    parser.add_argument(
        "--replicas", type=int, default=2, help="replicas of the Deployment (default: %(default)s)"
    )
    parser.add_argument("--only", choices=PARTS, help="print just this part")
    parser.add_argument("--check", type=Path, metavar="FILE", help="fail if FILE differs from the output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    operators = chosen_operators(arguments)
    if not operators:
        raise CommandError("no operators to print manifests for")
    from quarterdeck.errors import ConfigError

    try:
        text = render(arguments, operators)
    except ConfigError as error:
        raise CommandError(str(error)) from error
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


def render(arguments: argparse.Namespace, operators: list[Operator]) -> str:
    """The objects as YAML; raises ConfigError for settings that do not fit the operators."""
    documents = _documents(arguments, operators)
    text: str = yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    return text


def _documents(arguments: argparse.Namespace, operators: list[Operator]) -> list[dict[str, Any]]:
    name = arguments.name
    program = program_of(
        arguments.namespace,
        operators,
        settings_of(arguments).operators,
        name=name,
        watch_namespaces=arguments.watch_namespaces,
    )
    parts = {
        "crds": [dict(each) for operator in operators for each in operator.definitions()],
        "rbac": _permissions(name, arguments.namespace, program),
        "webhooks": webhook_documents(name, arguments.namespace, program),
        "deployment": _deployment(arguments, program),
    }
    if arguments.only:
        return parts[arguments.only]
    # Registered before the program runs, webhooks would refuse everything, its own pods perhaps included.
    del parts["webhooks"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": arguments.namespace}}
    return [namespace, *(document for part in parts.values() for document in part)]


def service_name(name: str) -> str:
    """The Service of an installation's webhooks."""
    return f"{name}-webhook"


def program_of(
    namespace: str,
    operators: list[Operator],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    name: str = NAME,
    watch_namespaces: tuple[str, ...] = (),
) -> Program:
    """The program that would run; nothing connects before it does: it is only asked what it needs."""
    from quarterdeck.client import Config
    from quarterdeck.runtime.election import LeaderElection
    from quarterdeck.runtime.operator.program import Program, ProgramOptions

    options = ProgramOptions(
        namespace=namespace,
        settings=settings,
        account=name,
        name=name,
        watch_namespaces=watch_namespaces,
        metrics_address=METRICS_ADDRESS,
        leader_election=LeaderElection(name=name, namespace=namespace),
    )
    return Program(Config(server="https://127.0.0.1"), operators, options)


def webhook_documents(name: str, namespace: str, program: Program) -> list[dict[str, Any]]:
    """The webhook configurations, without the bundle of certificates that whoever issues them adds."""
    from quarterdeck.runtime.webhook import ServiceTarget, webhook_configurations

    target = ServiceTarget(service_name(name), namespace)
    return [
        made.to_dict()
        for part in program.registrations
        if part.configuration
        for made in webhook_configurations(
            part.configuration, part.admission, target, namespaces=program.options.watch_namespaces
        )
    ]


def _permissions(name: str, namespace: str, program: Program) -> list[dict[str, Any]]:
    """Service account, roles and bindings."""
    from quarterdeck.runtime.rbac import roles

    account = {"name": name, "namespace": namespace}
    documents = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}]
    options = program.options
    for role in roles(
        options.cluster_name(name), program.manager.rules(), namespaces=options.watch_namespaces
    ):
        document = role.to_dict()
        kind, metadata = document["kind"], document["metadata"]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        documents += [document, binding]
    return documents


def _deployment(arguments: argparse.Namespace, program: Program) -> list[dict[str, Any]]:
    name = arguments.name
    labels = {
        "app.kubernetes.io/name": NAME,
        **({"app.kubernetes.io/instance": name} if name != NAME else {}),
    }
    metadata = {"name": name, "namespace": arguments.namespace, "labels": labels}
    command = [
        "quarterdeck",
        "run",
        f"--operators={','.join(operator.name for operator in program.operators)}",
        f"--namespace={arguments.namespace}",
        *([f"--name={name}"] if name != NAME else []),
        *([f"--watch-namespaces={','.join(watched)}"] if (watched := arguments.watch_namespaces) else []),
        "--webhook-host=0.0.0.0",
        f"--webhook-port={PORTS['webhooks']}",
        f"--metrics-address={METRICS_ADDRESS}",
        f"--health-address=:{PORTS['probes']}",
    ]
    variables = [pair for part in program.registrations for pair in part.variables.items()]
    container = {
        "name": NAME,
        "image": arguments.image,
        "command": command,
        **({"env": [{"name": name, "value": value} for name, value in variables]} if variables else {}),
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
                    "serviceAccountName": name,
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
        "metadata": {**metadata, "name": service_name(name)},
        "spec": {"selector": labels, "ports": [{"port": 443, "targetPort": "webhooks"}]},
    }
    return [service, deployment]
