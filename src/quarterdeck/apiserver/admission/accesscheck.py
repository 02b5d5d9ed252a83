"""The `authorizer` of admission expressions: may this user do that?

    authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()

Values are immutable; every step returns a new one. The answer comes from the server's own
authorizer through `Host.authorize`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import msgspec

from quarterdeck.apiserver.auth.attributes import Attributes as AccessQuestion
from quarterdeck.apiserver.auth.attributes import path_attributes
from quarterdeck.apiserver.auth.user import UserInfo, service_account_groups, service_account_username
from quarterdeck.apiserver.cel.declaration import Function, Overload
from quarterdeck.apiserver.cel.error import EvalError
from quarterdeck.apiserver.cel.types import BOOL, STRING, CelType, opaque_type
from quarterdeck.apiserver.cel.value import Opaque, Value
from quarterdeck.apiserver.metadata import label_errors, subdomain_errors

from .attributes import Attributes, Decision

Authorize = Callable[[AccessQuestion], Decision]

_PREFIX: Final = "kubernetes.authorization"
AUTHORIZER: Final = opaque_type(f"{_PREFIX}.Authorizer")
PATH_CHECK: Final = opaque_type(f"{_PREFIX}.PathCheck")
GROUP_CHECK: Final = opaque_type(f"{_PREFIX}.GroupCheck")
RESOURCE_CHECK: Final = opaque_type(f"{_PREFIX}.ResourceCheck")
DECISION: Final = opaque_type(f"{_PREFIX}.Decision")
_CHECK_COST: Final = 350_000


class Authorizer(Opaque):
    """`authorizer`: asks on behalf of one user."""

    __slots__ = ("ask", "user")
    type_name: ClassVar[str] = AUTHORIZER.name

    def __init__(self, user: UserInfo, ask: Authorize) -> None:
        self.user = user
        self.ask = ask


class PathCheck(Opaque):
    """`authorizer.path('/healthz')`."""

    __slots__ = ("authorizer", "path")
    type_name: ClassVar[str] = PATH_CHECK.name

    def __init__(self, authorizer: Authorizer, path: str) -> None:
        self.authorizer = authorizer
        self.path = path


class GroupCheck(Opaque):
    """`authorizer.group('apps')`."""

    __slots__ = ("authorizer", "group")
    type_name: ClassVar[str] = GROUP_CHECK.name

    def __init__(self, authorizer: Authorizer, group: str) -> None:
        self.authorizer = authorizer
        self.group = group


class ResourceCheck(Opaque):
    """`authorizer.group('').resource('pods')` with what was narrowed down since."""

    __slots__ = ("authorizer", "question")
    type_name: ClassVar[str] = RESOURCE_CHECK.name

    def __init__(self, authorizer: Authorizer, question: AccessQuestion) -> None:
        self.authorizer = authorizer
        self.question = question

    def narrowed(self, **changes: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, msgspec.structs.replace(self.question, **changes))


class DecisionValue(Opaque):
    """The outcome of `check`."""

    __slots__ = ("decision",)
    type_name: ClassVar[str] = DECISION.name

    def __init__(self, decision: Decision) -> None:
        self.decision = decision


def request_resource(authorizer: Authorizer, attributes: Attributes) -> ResourceCheck:
    """`authorizer.requestResource`: the resource of the request under admission."""
    return ResourceCheck(
        authorizer,
        AccessQuestion(
            user=authorizer.user,
            verb="",
            group=attributes.group,
            version=attributes.version,
            resource=attributes.resource,
            subresource=attributes.subresource,
            namespace=attributes.namespace,
            name=attributes.name,
        ),
    )


def _path(authorizer: Authorizer, path: str) -> Value:
    if not path.strip():
        raise EvalError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Value:
    if subdomain_errors(name):
        raise EvalError("Invalid service account name")
    if label_errors(namespace):
        raise EvalError("Invalid service account namespace")
    user = UserInfo(name=service_account_username(namespace, name), groups=service_account_groups(namespace))
    return Authorizer(user.authenticated(), authorizer.ask)


def _resource(check: GroupCheck, resource: str) -> Value:
    if not resource.strip():
        raise EvalError("resource must not be empty")
    question = AccessQuestion(
        user=check.authorizer.user, verb="", group=check.group, version="*", resource=resource
    )
    return ResourceCheck(check.authorizer, question)


def _check_path(check: PathCheck, verb: str) -> Value:
    return DecisionValue(check.authorizer.ask(path_attributes(check.authorizer.user, verb, check.path)))


def _check_resource(check: ResourceCheck, verb: str) -> Value:
    return DecisionValue(check.authorizer.ask(msgspec.structs.replace(check.question, verb=verb)))


def _member(
    name: str,
    identifier: str,
    target: CelType,
    arguments: int,
    result: CelType,
    implementation: Callable[..., Value],
    *,
    cost: int = 0,
) -> Function:
    return Function(name, [_overload(identifier, target, arguments, result, implementation, cost=cost)])


def _overload(
    identifier: str,
    target: CelType,
    arguments: int,
    result: CelType,
    implementation: Callable[..., Value],
    *,
    cost: int = 0,
) -> Overload:
    return Overload(
        identifier,
        (target, *[STRING] * arguments),
        result,
        implementation,
        is_member=True,
        runtime_cost=(lambda args, value: cost) if cost else None,
    )


def functions() -> list[Function]:
    """The library, as `Environment` takes it."""
    check, decision = RESOURCE_CHECK, DECISION
    checks = [
        _overload("pathcheck_check", PATH_CHECK, 1, decision, _check_path, cost=_CHECK_COST),
        _overload("resourcecheck_check", check, 1, decision, _check_resource, cost=_CHECK_COST),
    ]
    return [
        _member("path", "authorizer_path", AUTHORIZER, 1, PATH_CHECK, _path),
        _member("group", "authorizer_group", AUTHORIZER, 1, GROUP_CHECK, GroupCheck),
        _member("serviceAccount", "authorizer_serviceaccount", AUTHORIZER, 2, AUTHORIZER, _service_account),
        _member("resource", "groupcheck_resource", GROUP_CHECK, 1, check, _resource),
        _member(
            "subresource",
            "resourcecheck_subresource",
            check,
            1,
            check,
            lambda c, v: c.narrowed(subresource=v),
        ),
        _member(
            "namespace", "resourcecheck_namespace", check, 1, check, lambda c, v: c.narrowed(namespace=v)
        ),
        _member("name", "resourcecheck_name", check, 1, check, lambda c, v: c.narrowed(name=v)),
        _member(
            "fieldSelector",
            "authorizer_fieldselector",
            check,
            1,
            check,
            lambda c, v: c.narrowed(field_selector=v),
        ),
        _member(
            "labelSelector",
            "authorizer_labelselector",
            check,
            1,
            check,
            lambda c, v: c.narrowed(label_selector=v),
        ),
        Function("check", checks),
        _member("errored", "decision_errored", decision, 0, BOOL, lambda d: bool(d.decision.error)),
        _member("error", "decision_error", decision, 0, STRING, lambda d: d.decision.error),
        _member("allowed", "decision_allowed", decision, 0, BOOL, lambda d: d.decision.allowed),
        _member("reason", "decision_reason", decision, 0, STRING, lambda d: d.decision.reason),
    ]
