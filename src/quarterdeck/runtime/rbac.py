"""Permissions, derived from what controllers declare.

A controller says what it reconciles, owns and watches; that is most of what it may do. ``for_rules``,
``owns_rules`` and ``watch_rules`` write it down, the builder collects it, and ``roles`` turns it into
Role and ClusterRole objects. Whatever a controller does beyond its declarations it states as a ``Rule``.

``missing_permissions`` asks the server about every rule (SelfSubjectAccessReview) and names the exact verbs
that are refused, before any cache waits for them in vain. ``compare`` holds the declarations against what a
controller was seen to do in tests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec

from quarterdeck.api import ObjectMeta, Resource
from quarterdeck.client import AnyKind, Client, MetadataKind
from quarterdeck.runtime.reconcile.recording import Permission

if TYPE_CHECKING:
    from quarterdeck.api.k8s.authorization import SelfSubjectAccessReviewSpec
    from quarterdeck.api.k8s.rbac import ClusterRole, PolicyRule, Role

READ: Final = ("get", "list", "watch")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs on resources, or on URLs."""

    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    namespace: str = ""
    """Needed in this namespace only; empty follows the cache's namespaces."""
    is_cluster_wide: bool = False
    """The resources have no namespace: the rule holds for the cluster, whatever namespaces the cache has."""

    def permissions(self) -> set[Permission]:
        """The single permissions it grants; URLs excluded."""
        return {Permission(g, r, v) for g in self.groups for r in self.resources for v in self.verbs}


def event_rules(api: str) -> tuple[Rule, ...]:
    """What a recorder needs that writes events by that API; ``both`` forms are written by core's."""
    group = "" if api in ("core", "both") else api
    return (Rule(groups=(group,), resources=("events",), verbs=("create", "patch")),)


ELECTION_RULES = (
    Rule(groups=("coordination.k8s.io",), resources=("leases",), verbs=("create", "get", "update")),
)
"""What leader election needs."""

SHARD_RULES = (
    Rule(
        groups=("coordination.k8s.io",),
        resources=("leases",),
        verbs=("create", "delete", "get", "list", "update"),
    ),
)
"""What an election with shards needs: replicas find each other by their Leases."""


def _rule(kind: AnyKind, verbs: tuple[str, ...], subresource: str = "") -> tuple[Rule, ...]:
    cls = kind.cls if isinstance(kind, MetadataKind) else kind
    if not isinstance(cls, type):
        return ()  # a dynamic kind: only discovery knows its resource
    info = cls.type_info
    return (
        Rule(
            groups=(info.group,),
            resources=(f"{info.plural}{subresource}",),
            verbs=verbs,
            is_cluster_wide=not info.is_namespaced,
        ),
    )


def watch_rules(kind: AnyKind) -> tuple[Rule, ...]:
    """Watching a kind; a kind without a class has to be stated as a ``Rule``."""
    return _rule(kind, READ)


def for_rules(
    kind: type[Resource], *, uses_finalizers: bool, owns_others: bool, writes_status: bool = True
) -> tuple[Rule, ...]:
    """Reconciling a kind: reading it, writing its status, and its finalizers where they are used."""
    info = kind.type_info
    rules = [*watch_rules(kind)]
    if info.status and writes_status:
        rules += _rule(kind, ("patch", "update"), "/status")
    if uses_finalizers:
        rules += _rule(kind, ("patch",))
    if uses_finalizers or owns_others:
        # Blocking owner references need this where the server enforces who may set them.
        rules += _rule(kind, ("update",), "/finalizers")
    return tuple(rules)


def owns_rules(kind: AnyKind) -> tuple[Rule, ...]:
    """Owning children of a kind: watching, creating, applying and deleting them."""
    return _rule(kind, ("create", "delete", *READ, "patch"))


def merge_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The same permissions in as few rules as possible, in a stable order."""
    verbs: dict[tuple[str, str, tuple[str, ...], str, bool], set[str]] = {}
    urls: dict[tuple[str, ...], set[str]] = {}
    for rule in rules:
        if rule.urls:
            urls.setdefault(tuple(sorted(rule.urls)), set()).update(rule.verbs)
        for group in rule.groups:
            for resource in rule.resources:
                names = tuple(sorted(rule.resource_names))
                slot = (group, resource, names, rule.namespace, rule.is_cluster_wide)
                verbs.setdefault(slot, set()).update(rule.verbs)
    alike: dict[tuple[str, tuple[str, ...], str, bool, tuple[str, ...]], list[str]] = {}
    for (group, resource, names, namespace, is_wide), allowed in verbs.items():
        alike.setdefault((group, names, namespace, is_wide, tuple(sorted(allowed))), []).append(resource)
    merged = [
        Rule(
            groups=(group,),
            resources=tuple(sorted(resources)),
            verbs=allowed_verbs,
            resource_names=names,
            namespace=namespace,
            is_cluster_wide=is_wide,
        )
        for (group, names, namespace, is_wide, allowed_verbs), resources in alike.items()
    ]
    merged.sort(key=lambda rule: (rule.namespace, rule.groups, rule.resources, rule.verbs))
    merged += [Rule(urls=paths, verbs=tuple(sorted(allowed))) for paths, allowed in sorted(urls.items())]
    return tuple(merged)


def policy_rules(rules: Iterable[Rule]) -> "tuple[PolicyRule, ...]":
    """The rules as they stand in a Role."""
    # Late, here and below: the built-in kinds take a while to import, and few processes print roles.
    from quarterdeck.api.k8s.rbac import PolicyRule

    return tuple(
        PolicyRule(
            verbs=rule.verbs,
            api_groups=rule.groups,
            resources=rule.resources,
            resource_names=rule.resource_names,
            non_resource_urls=rule.urls,
        )
        for rule in rules
    )


def roles(
    name: str, rules: Iterable[Rule], *, namespaces: Sequence[str] = ()
) -> "tuple[ClusterRole | Role, ...]":
    """The roles to install: one Role per namespace of a namespaced cache, else one ClusterRole.

    Rules for one namespace become a Role there in either case. URLs, and kinds without a namespace, are in
    a ClusterRole.
    """
    from quarterdeck.api.k8s.rbac import ClusterRole, Role

    by_namespace: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.urls or rule.is_cluster_wide or not (rule.namespace or namespaces):
            spaces: Sequence[str] = ("",)
        else:
            spaces = (rule.namespace,) if rule.namespace else namespaces
        for space in spaces:
            placed = msgspec.structs.replace(rule, namespace="", is_cluster_wide=False)
            by_namespace.setdefault(space, []).append(placed)
    made: list[ClusterRole | Role] = []
    for space, placed_rules in sorted(by_namespace.items()):
        policy = policy_rules(merge_rules(placed_rules))
        if space:
            made.append(Role(metadata=ObjectMeta(name=name, namespace=space), rules=policy))
        else:
            made.append(ClusterRole(metadata=ObjectMeta(name=name), rules=policy))
    return tuple(made)


async def missing_permissions(
    client: Client, rules: Iterable[Rule], *, namespaces: Sequence[str] = (), account: str = ""
) -> list[Permission]:
    """The permissions that the server says we do not have; asks once for each.

    ``account`` (``namespace/name``) asks about a service account, for which the caller needs a right.
    """
    from quarterdeck.api.k8s.authorization import (
        SelfSubjectAccessReview,
        SubjectAccessReview,
        SubjectAccessReviewSpec,
    )

    space, _, name = account.partition("/")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")

    missing: dict[Permission, None] = {}
    for rule in merge_rules(rules):
        for permission, spec in _reviews(rule, namespaces):
            answer: SelfSubjectAccessReview | SubjectAccessReview
            if account:
                asked = SubjectAccessReviewSpec(
                    resource_attributes=spec.resource_attributes,
                    non_resource_attributes=spec.non_resource_attributes,
                    user=f"system:serviceaccount:{space}:{name}",
                    groups=groups,
                )
                answer = await client.create(SubjectAccessReview(spec=asked))
            else:
                answer = await client.create(SelfSubjectAccessReview(spec=spec))
            if not answer.status.allowed:
                missing[permission] = None
    return list(missing)


def _reviews(
    rule: Rule, namespaces: Sequence[str]
) -> "Iterator[tuple[Permission, SelfSubjectAccessReviewSpec]]":
    """What to ask the server about a rule: each verb, in each place, on each object that it names."""
    from quarterdeck.api.k8s.authorization import (
        NonResourceAttributes,
        ResourceAttributes,
        SelfSubjectAccessReviewSpec,
    )

    for url in rule.urls:
        for verb in rule.verbs:
            path = NonResourceAttributes(path=url, verb=verb)
            yield Permission("", url, verb), SelfSubjectAccessReviewSpec(non_resource_attributes=path)
    if rule.namespace:
        spaces: tuple[str, ...] = (rule.namespace,)
    else:
        spaces = ("",) if rule.is_cluster_wide or not namespaces else tuple(namespaces)
    for permission in sorted(rule.permissions()):
        resource, _, subresource = permission.resource.partition("/")
        for namespace, name in product(spaces, rule.resource_names or ("",)):
            attributes = ResourceAttributes(
                namespace=namespace,
                verb=permission.verb,
                group=permission.group,
                resource=resource,
                subresource=subresource,
                name=name,
            )
            yield permission, SelfSubjectAccessReviewSpec(resource_attributes=attributes)


class Comparison(msgspec.Struct, frozen=True):
    """Declared permissions against those that were used."""

    missing: tuple[Permission, ...]
    """Used and not declared."""
    unused: tuple[Permission, ...]
    """Declared writes whose resource was never written."""


_WRITES: Mapping[str, str] = {"create": "", "update": "", "patch": "", "delete": "", "deletecollection": ""}


def compare(rules: Iterable[Rule], used: Iterable[Permission]) -> Comparison:
    """Hold declarations against what was seen; reads are not compared, watches need all three."""
    declared = set().union(*(rule.permissions() for rule in rules))
    seen = set(used)
    written = {(permission.group, permission.resource) for permission in seen}
    return Comparison(
        missing=tuple(sorted(seen - declared)),
        unused=tuple(
            sorted(
                permission
                for permission in declared
                if permission.verb in _WRITES
                and (permission.group, permission.resource) not in written
                and not permission.resource.endswith("/finalizers")
            )
        ),
    )
