"""What the API server must know about a webhook: which requests it wants, and how it is called.

Handlers are made with these options so that the configuration objects can be generated from the very
handlers that serve them; see ``configuration``.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypedDict

import msgspec

from quarterdeck.api import GroupVersionKind, LabelSelector, Resource

FailurePolicy = Literal["Fail", "Ignore"]
MatchPolicy = Literal["Equivalent", "Exact"]
SideEffects = Literal["None", "NoneOnDryRun"]
Reinvocation = Literal["Never", "IfNeeded"]
Scope = Literal["*", "Cluster", "Namespaced"]
OPERATIONS: Final = ("CREATE", "UPDATE")


class WebhookRule(msgspec.Struct, frozen=True):
    """Requests a webhook wants to see."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    """Plural names; a subresource is ``pods/status``."""
    operations: tuple[str, ...] = OPERATIONS
    scope: Scope = "*"


class SettingsOptions(TypedDict, total=False):
    """Keywords every admission handler takes; unit, default and consequence stand at ``WebhookSettings``."""

    name: str
    rules: tuple[WebhookRule, ...]
    operations: tuple[str, ...]
    sees_deleting: bool
    failure_policy: FailurePolicy
    match_policy: MatchPolicy
    side_effects: SideEffects
    timeout: int
    reinvocation: Reinvocation
    namespace_selector: LabelSelector | None
    object_selector: LabelSelector | None
    match_conditions: Mapping[str, str]
    review_versions: tuple[str, ...]


class WebhookSettings(msgspec.Struct, frozen=True):
    """How a webhook is registered."""

    name: str
    """Full name, shown to users in denials; default ``v<kind>.<group>`` or ``m<kind>.<group>``."""
    rules: tuple[WebhookRule, ...]
    """Default: the kind itself, with the operations that the given functions are for."""
    sees_deleting: bool = False
    """Validating only: whether updates of objects that are being deleted are judged, too. They are let pass
    otherwise: an object that became invalid must be able to lose its finalizers."""
    failure_policy: FailurePolicy = "Fail"
    """What happens to requests while nobody answers; ``Ignore`` lets them pass unchecked."""
    match_policy: MatchPolicy = "Equivalent"
    """``Equivalent`` also sends requests made with other versions, converted to the rule's."""
    side_effects: SideEffects = "None"
    """``None``: dry-run requests may be sent."""
    timeout: int = 10
    """Seconds the API server waits, 1 to 30."""
    reinvocation: Reinvocation = "Never"
    """Mutating only: whether to be called again after a later webhook changed the object."""
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_conditions: Mapping[str, str] = {}
    """Name → CEL expression; all must hold for the webhook to be called."""
    review_versions: tuple[str, ...] = ("v1",)
    """Review versions understood, the preferred first: ``v1``, ``v1beta1``."""


def rule_for(kind: type[Resource] | GroupVersionKind, operations: tuple[str, ...]) -> tuple[WebhookRule, ...]:
    """The rule of one kind; none for a kind without a class, whose resource only the author knows."""
    if isinstance(kind, GroupVersionKind):
        return ()
    info = kind.type_info
    return (WebhookRule((info.group,), (info.version,), (info.plural,), operations, info.scope),)


def make_settings(
    kind: type[Resource] | GroupVersionKind | None,
    prefix: str,
    options: SettingsOptions,
    operations: tuple[str, ...] = OPERATIONS,
) -> WebhookSettings:
    """The settings of a handler of ``kind`` from its keywords; ``operations`` unless they say others."""
    given = dict(options)
    operations = options.get("operations", operations)
    given.pop("operations", None)
    if kind is not None:
        gvk = kind if isinstance(kind, GroupVersionKind) else kind.type_info.gvk
        # A name needs three parts; Kubernetes' own groups have fewer (apps) or none.
        group = gvk.group if "." in gvk.group else f"{gvk.group or 'core'}.k8s.io"
        given.setdefault("name", f"{prefix}{gvk.kind.lower()}.{group}")
        given.setdefault("rules", rule_for(kind, operations))
    return WebhookSettings(**{"name": "", "rules": (), **given})  # type: ignore[arg-type]  # the keys are those of SettingsOptions
