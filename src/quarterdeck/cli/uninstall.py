"""`quarterdeck uninstall`: take the operators out of a cluster, in an order that blocks nobody."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Final

from .argument import add_cluster_arguments
from .dashboard.command import cluster_config
from .error import CommandError
from .manifests import NAME
from .operators import add_operator_arguments, add_watch_namespaces, chosen_operators

if TYPE_CHECKING:
    from quarterdeck.api import GroupVersionKind
    from quarterdeck.client import Client
    from quarterdeck.runtime.operator import Operator
    from quarterdeck.runtime.operator.program import Program

DESCRIPTION = """\
Remove the operators from a cluster: first their webhooks, so that no request is refused because nobody
answers, then the Deployment, roles and everything else from `quarterdeck manifests`, then the operators'
finalizers, which no controller would handle any more. The CRDs and all objects of their kinds stay, unless
--purge is given. Without --yes it only says what it would do.
"""
_WEBHOOKS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "uninstall", help="remove the operators from a cluster", description=DESCRIPTION
    )
    add_cluster_arguments(parser)
    add_operator_arguments(parser)
    parser.add_argument(
        "--namespace",
        default="quarterdeck-system",
        help="namespace of the installation (default: %(default)s)",
    )
    parser.add_argument("--name", default=NAME, help="name of the installation (default: %(default)s)")
    add_watch_namespaces(parser)
    parser.add_argument(
        "--purge", action="store_true", help="also remove the CRDs, and with them every object of their kinds"
    )
    parser.add_argument(
        "--webhooks-only", action="store_true", help="remove just the webhooks, before others delete the rest"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do it; without this option, only say what would be done"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from quarterdeck.client import Client
    from quarterdeck.errors import QuarterdeckError

    operators = chosen_operators(arguments)

    async def connected() -> int:
        async with Client.connect(cluster_config(arguments)) as client:
            return await uninstall(client, operators, arguments)

    try:
        return asyncio.run(connected())
    except QuarterdeckError as error:
        raise CommandError(str(error)) from error


async def uninstall(client: Client, operators: list[Operator], arguments: argparse.Namespace) -> int:
    """Do it, saying what is done line by line."""
    done = 0
    async for line in _steps(client, operators, arguments):
        print(line)
        done += 1
    if not done:
        print("nothing of it is in the cluster")
    elif not arguments.yes:
        print("nothing was changed: do it with --yes")
    return 0


async def _steps(
    client: Client, operators: list[Operator], arguments: argparse.Namespace
) -> AsyncIterator[str]:
    from .manifests import program_of

    if arguments.purge and arguments.watch_namespaces:
        raise CommandError("--purge takes the definitions away from other installations, too: leave it out")
    program = program_of(
        arguments.namespace,
        operators,
        {},
        name=arguments.name,
        watch_namespaces=arguments.watch_namespaces,
    )
    word = "removed" if arguments.yes else "would remove"
    async for line in _webhooks(client, program, arguments):
        yield f"{word} {line}"
    if arguments.webhooks_only:
        return
    definitions = [each for operator in operators for each in operator.definitions()]
    converted = {name for part in program.registrations for name in part.converted}
    for definition in definitions:
        name = definition["metadata"]["name"]
        if (
            name in converted
            and not arguments.purge
            and await _stop_converting(client, definition, arguments)
        ):
            yield f"{word} the conversion webhook of CustomResourceDefinition {name}"
    kept = [each for part in program.registrations for each in part.keeps]
    for each in (*_program_objects(program), *kept):
        if await _remove(client, *each, yes=arguments.yes):
            yield f"{word} {each[1]} {each[2]}"
    async for line in _finalizers(client, definitions, arguments):
        yield f"{word} {line}"
    if arguments.purge:
        for definition in definitions:
            name = definition["metadata"]["name"]
            if await _remove(
                client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", name, "", yes=arguments.yes
            ):
                yield f"{word} CustomResourceDefinition {name} and every object of its kind"


async def _webhooks(client: Client, program: Program, arguments: argparse.Namespace) -> AsyncIterator[str]:
    """Remove the webhook configurations: those of this version, and what an earlier one may have left."""
    from quarterdeck.errors import Forbidden

    from .manifests import webhook_documents

    documents = webhook_documents(arguments.name, arguments.namespace, program)
    registered = {(each["kind"], each["metadata"]["name"]) for each in documents}
    for kind, name in (
        (kind, name) for kind in _WEBHOOKS for name in sorted({each[1] for each in registered})
    ):
        try:
            if await _remove(client, "admissionregistration.k8s.io/v1", kind, name, "", yes=arguments.yes):
                yield f"{kind} {name}"
        except Forbidden:  # the role of the program is for the kinds that it registers
            if (kind, name) in registered:
                raise


def _program_objects(program: Program) -> Iterable[tuple[str, str, str, str]]:
    """What `manifests` made for the program, what runs first."""
    options = program.options
    name, namespace, role = options.name, options.namespace, options.cluster_name(options.name)
    needed = (rule.namespace for rule in program.manager.rules() if rule.namespace)
    places = dict.fromkeys((namespace, *options.watch_namespaces, *needed))
    rbac = "rbac.authorization.k8s.io/v1"
    return (
        ("apps/v1", "Deployment", name, namespace),
        ("v1", "Service", f"{name}-webhook", namespace),
        ("v1", "Secret", f"{name}-webhook-tls", namespace),
        ("coordination.k8s.io/v1", "Lease", name, namespace),
        *((rbac, kind, role, place) for place in places for kind in ("RoleBinding", "Role")),
        (rbac, "ClusterRoleBinding", role, ""),
        (rbac, "ClusterRole", role, ""),
        ("v1", "ServiceAccount", name, namespace),
    )


async def _remove(client: Client, version: str, kind: str, name: str, namespace: str, *, yes: bool) -> bool:
    """Delete an object; whether there was one."""
    from quarterdeck.api import DynamicObject
    from quarterdeck.errors import NoKindMatch, NotFound

    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    obj = DynamicObject({"apiVersion": version, "kind": kind, "metadata": metadata})
    try:
        await client.get(obj.gvk, name, namespace)
        if yes:
            await client.delete(obj)
    except (NotFound, NoKindMatch):
        return False
    return True


async def _stop_converting(client: Client, definition: Any, arguments: argparse.Namespace) -> bool:
    """Take the webhook out of a definition that stays; only the stored version is then served."""
    from quarterdeck.api import DynamicObject
    from quarterdeck.client import MergePatch
    from quarterdeck.errors import NotFound

    head = DynamicObject(dict(definition))
    try:
        found = await client.get(head.gvk, head.metadata.name)
    except NotFound:
        return False
    if found.at("spec", "conversion", "strategy", default="None") != "Webhook":
        return False
    if arguments.yes:
        versions = [
            {**each, "served": bool(each.get("storage"))} for each in found.to_dict()["spec"]["versions"]
        ]
        conversion = {"strategy": "None", "webhook": None}
        await client.patch(found, MergePatch({"spec": {"conversion": conversion, "versions": versions}}))
    return True


async def _finalizers(
    client: Client, definitions: Iterable[Any], arguments: argparse.Namespace
) -> AsyncIterator[str]:
    """Let go of objects that our finalizers hold: those in our groups, on objects of our kinds."""
    from quarterdeck.api import GroupVersionKind
    from quarterdeck.api.finalizer import remove_finalizer
    from quarterdeck.client import MetadataKind
    from quarterdeck.errors import NoKindMatch, NotFound
    from quarterdeck.runtime.reconcile.finalizer import change_finalizers

    groups, watched = {each["spec"]["group"] for each in definitions}, arguments.watch_namespaces
    for definition in definitions:
        spec = definition["spec"]
        version = next(each["name"] for each in spec["versions"] if each.get("storage"))
        kind: GroupVersionKind = GroupVersionKind(spec["group"], version, spec["names"]["kind"])
        try:
            async for page in client.pages(MetadataKind(kind)):
                for head in page.items:
                    if watched and head.metadata.namespace not in watched:
                        continue  # another installation serves it
                    ours = [each for each in head.metadata.finalizers if _is_ours(each, groups)]
                    if not ours:
                        continue
                    if arguments.yes:
                        after = head.metadata
                        for each in ours:
                            after = remove_finalizer(after, each)
                        await change_finalizers(client, head, after)
                    where = f"{head.metadata.namespace}/" if head.metadata.namespace else ""
                    yield f"finalizer {', '.join(ours)} of {kind.kind} {where}{head.metadata.name}"
        except (NoKindMatch, NotFound):
            continue


def _is_ours(finalizer: str, groups: set[str]) -> bool:
    domain = finalizer.partition("/")[0]
    return any(domain == group or domain.endswith(f".{group}") for group in groups)
