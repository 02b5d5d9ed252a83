"""Authorization checks, for policies and match conditions.

The host passes an `Authorizer`; expressions build a check step by step and ask it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Protocol

from quarterdeck.cel.declaration import Function, Implementation, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import BOOL, STRING, CelType, object_type
from quarterdeck.cel.value.value import Opaque
from quarterdeck.errors import QuarterdeckError

AUTHORIZER: Final = object_type("kubernetes.authorization.Authorizer")
PATH_CHECK: Final = object_type("kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = object_type("kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = object_type("kubernetes.authorization.ResourceCheck")
DECISION: Final = object_type("kubernetes.authorization.Decision")

_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked; `service_account` is (namespace, name) when the request is not the user's own."""

    verb: str = ""
    path: str = ""
    is_resource_request: bool = False
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None


class AccessError(QuarterdeckError):
    """The host could not decide."""


class Authorizer(Protocol):
    """Host side: decides, or raises AccessError, which expressions see as `errored()`."""

    def check(self, attributes: Attributes) -> tuple[bool, str]: ...


@dataclass(frozen=True, eq=False)
class AuthorizerValue(Opaque):
    """`authorizer` in expressions."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"
    host: Authorizer
    attributes: Attributes = field(default_factory=Attributes)


class PathCheck(AuthorizerValue):
    """`authorizer.path(...)`."""

    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"


class GroupCheck(AuthorizerValue):
    """`authorizer.group(...)`."""

    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"


class ResourceCheck(AuthorizerValue):
    """`authorizer.group(...).resource(...)`, and `authorizer.requestResource`."""

    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"


@dataclass(frozen=True, eq=False)
class Decision(Opaque):
    """Outcome of a check."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str
    error: str


def _path(authorizer: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise EvalError("path must not be empty")
    return PathCheck(authorizer.host, replace(authorizer.attributes, path=path))


def _group(authorizer: AuthorizerValue, group: str) -> GroupCheck:
    return GroupCheck(authorizer.host, replace(authorizer.attributes, group=group, is_resource_request=True))


def _service_account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise EvalError("Invalid service account name")
    if len(namespace) > 63 or not _LABEL.fullmatch(namespace):
        raise EvalError("Invalid service account namespace")
    return AuthorizerValue(authorizer.host, replace(authorizer.attributes, service_account=(namespace, name)))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvalError("resource must not be empty")
    return ResourceCheck(check.host, replace(check.attributes, resource=resource))


def _check(check: AuthorizerValue, verb: str) -> Decision:
    try:
        allowed, reason = check.host.check(replace(check.attributes, verb=verb))
    except AccessError as problem:
        return Decision(False, "", str(problem))
    return Decision(allowed, reason, "")


def functions() -> Iterable[Function]:
    """All functions of the library."""

    def member(name: str, id: str, args: list[CelType], result: CelType, run: Implementation) -> Function:
        return Function(name, [Overload(id, args, result, run, is_member=True)])

    yield member("path", "authorizer_path", [AUTHORIZER, STRING], PATH_CHECK, _path)
    yield member("group", "authorizer_group", [AUTHORIZER, STRING], GROUP_CHECK, _group)
    yield member(
        "serviceAccount",
        "authorizer_serviceaccount",
        [AUTHORIZER, STRING, STRING],
        AUTHORIZER,
        _service_account,
    )
    yield member("resource", "groupcheck_resource", [GROUP_CHECK, STRING], RESOURCE_CHECK, _resource)
    for name, id, change in (
        ("subresource", "resourcecheck_subresource", lambda a, v: replace(a, subresource=v)),
        ("namespace", "resourcecheck_namespace", lambda a, v: replace(a, namespace=v)),
        ("name", "resourcecheck_name", lambda a, v: replace(a, name=v)),
        ("fieldSelector", "authorizer_fieldselector", lambda a, v: replace(a, field_selector=v)),
        ("labelSelector", "authorizer_labelselector", lambda a, v: replace(a, label_selector=v)),
    ):
        yield member(name, id, [RESOURCE_CHECK, STRING], RESOURCE_CHECK, _narrow(change))
    yield Function(
        "check",
        [
            Overload("pathcheck_check", [PATH_CHECK, STRING], DECISION, _check, is_member=True),
            Overload("resourcecheck_check", [RESOURCE_CHECK, STRING], DECISION, _check, is_member=True),
        ],
    )
    yield member("errored", "decision_errored", [DECISION], BOOL, lambda d: d.error != "")
    yield member("error", "decision_error", [DECISION], STRING, lambda d: d.error)
    yield member("allowed", "decision_allowed", [DECISION], BOOL, lambda d: d.allowed)
    yield member("reason", "decision_reason", [DECISION], STRING, lambda d: d.reason)


def _narrow(change: Callable[[Attributes, str], Attributes]) -> Implementation:
    return lambda check, value: ResourceCheck(check.host, change(check.attributes, value))
