"""Expressions of matchConditions and policies: what they may name, and compiling them.

An expression is compiled once. One that does not compile is kept with its error, because what was
stored by an earlier version must fail when it is used, not when it is read. `admission.expression`
evaluates them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from quarterdeck.cel.environment import Environment, Program
from quarterdeck.cel.error import CelCompileError, ProgramError
from quarterdeck.cel.library import mutation
from quarterdeck.cel.type.celtype import (
    BOOL,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    CelType,
    list_type,
    map_type,
    object_type,
)


class Scope(NamedTuple):
    """Which optional names expressions of a place may use."""

    params: bool = False
    authorizer: bool = False
    patches: bool = False


class Compiled(NamedTuple):
    """The outcome of compiling: a program, or why there is none."""

    source: str
    program: Program | None
    error: str


def _struct(name: str, /, **fields: CelType) -> CelType:
    return object_type(name, fields)


def _request_type() -> CelType:
    kind = _struct("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
    resource = _struct("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
    user = _struct(
        "kubernetes.UserInfo",
        username=STRING,
        uid=STRING,
        groups=list_type(STRING),
        extra=map_type(STRING, list_type(STRING)),
    )
    return _struct(
        "kubernetes.AdmissionRequest",
        kind=kind,
        resource=resource,
        subResource=STRING,
        requestKind=kind,
        requestResource=resource,
        requestSubResource=STRING,
        name=STRING,
        namespace=STRING,
        operation=STRING,
        userInfo=user,
        dryRun=BOOL,
        options=DYN,
    )


def _namespace_type() -> CelType:
    condition = _struct(
        "kubernetes.NamespaceCondition",
        status=STRING,
        type=STRING,
        lastTransitionTime=TIMESTAMP,
        message=STRING,
        reason=STRING,
    )
    texts = map_type(STRING, STRING)
    metadata = _struct(
        "kubernetes.NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=texts,
        annotations=texts,
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=list_type(STRING),
    )
    return _struct(
        "kubernetes.Namespace",
        metadata=metadata,
        spec=_struct("kubernetes.NamespaceSpec", finalizers=list_type(STRING)),
        status=_struct("kubernetes.NamespaceStatus", conditions=list_type(condition), phase=STRING),
    )


_REQUEST: Final = _request_type()
_NAMESPACE: Final = _namespace_type()
OBJECT: Final = object_type("Object")
JSON_PATCHES: Final = list_type(mutation.JSON_PATCH)
#: how upstream writes the types of an audit annotation
TEXT_OR_NULL: Final = (STRING, NULL)


def _declarations(scope: Scope, variables: CelType | None) -> dict[str, CelType]:
    declared = {"object": DYN, "oldObject": DYN, "namespaceObject": _NAMESPACE, "request": _REQUEST}
    if scope.params:
        declared["params"] = DYN
    if variables is not None:
        declared["variables"] = variables
    return declared


@lru_cache(maxsize=16)
def _plain_environment(scope: Scope) -> Environment:
    return _environment(scope, None)


def _environment(scope: Scope, variables: CelType | None) -> Environment:
    return Environment(
        _declarations(scope, variables),
        types=mutation.MutationTypes() if scope.patches else None,
        authorizer=scope.authorizer,
    )


def compile_expression(
    source: str, scope: Scope, returns: Sequence[CelType], variables: Composition | None = None
) -> Compiled:
    """Compile and check the result type; problems end up in `error`, in upstream's words."""
    environment = _plain_environment(scope) if variables is None else variables.environment(scope)
    try:
        program = environment.compile(source)
    except ProgramError as error:
        return Compiled(source, None, f"program instantiation failed: {error.message}")
    except CelCompileError as error:
        return Compiled(source, None, f"compilation failed: {error.message}")
    if returns and program.result_type not in returns:
        return Compiled(source, None, _wrong_type(returns, program.result_type))
    return Compiled(source, program, "")


def _wrong_type(returns: Sequence[CelType], got: CelType) -> str:
    names = ["null_type" if item == NULL else str(item) for item in returns]
    wanted = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    shown = "null_type" if got == NULL else str(got)
    return f"must evaluate to {wanted} but got {shown}"


class Composition:
    """The `variables` of a policy, each seeing those before it."""

    def __init__(self, variables: Sequence[Mapping[str, Any]], scope: Scope) -> None:
        self.compiled: dict[str, Compiled] = {}
        self._fields: dict[str, CelType] = {}
        self._environments: dict[Scope, Environment] = {}
        for variable in variables:
            self.add(variable.get("name", ""), variable.get("expression", ""), scope)

    def add(self, name: str, source: str, scope: Scope) -> Compiled:
        """Declare one more variable; expressions compiled from now on may use it."""
        compiled = compile_expression(source, scope, (), self)
        self.compiled[name] = compiled
        self._fields[name] = _declared_type(compiled.program.result_type) if compiled.program else DYN
        self._environments = {}
        return compiled

    def environment(self, scope: Scope) -> Environment:
        found = self._environments.get(scope)
        if found is None:
            declared = object_type("kubernetes.variables", dict(self._fields))
            found = self._environments[scope] = _environment(scope, declared)
        return found


def _declared_type(inferred: CelType) -> CelType:
    """Upstream carries scalar, list and map types over to later expressions, nothing else."""
    if inferred.kind in ("list", "map"):
        return CelType(inferred.kind, inferred.name, tuple(_declared_type(item) for item in inferred.params))
    if inferred.kind in ("struct", "opaque", "type", "param", "error"):
        return DYN
    return inferred
