"""MutatingAdmissionPolicy: changes computed by expressions.

A mutation is an apply configuration (`Object{...}`, merged as an apply would) or a JSON patch
(`[JSONPatch{...}]`). Mutations run in order, each on the outcome of those before it; failures are
collected and the first one is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.builtin.access.policyexpression import (
    JSON_PATCHES,
    OBJECT,
    Compiled,
    Composition,
    Scope,
    compile_expression,
)
from quarterdeck.cel.error import CelRuntimeError
from quarterdeck.cel.library.mutation import plain, type_name_problems
from quarterdeck.cel.value.value import StructValue
from quarterdeck.errors import PatchError, QuarterdeckError
from quarterdeck.wire.patch import TestFailed
from quarterdeck.wire.turn import in_turns

from .attributes import Attributes, Host, metadata_text
from .expression import Budget, ExpressionError, OutOfBudget
from .matchconditions import ConditionError
from .objectpatch import patched
from .policies import Binding, PolicyTable, namespace_of
from .policycall import Call, PolicyHead, activation_of, calls_of, policy_head
from .version import VersionedPair, VersionedView

_PLUGIN: Final = "MutatingAdmissionPolicy"


class Mutation(NamedTuple):
    """One entry of `mutations`."""

    expression: Compiled
    is_json_patch: bool


class MutatingPolicy(PolicyHead, frozen=True, eq=False):
    """A policy, compiled."""

    reinvokes: bool
    mutations: tuple[Mutation, ...]


def mutating_policy(name: str, obj: Mapping[str, Any]) -> MutatingPolicy:
    spec = obj.get("spec") or {}
    head = policy_head(name, spec)
    scope, composition = head["scope"], head["composition"]
    return MutatingPolicy(
        **head,
        reinvokes=spec.get("reinvocationPolicy") == "IfNeeded",
        mutations=tuple(_mutation(item, scope, composition) for item in spec.get("mutations") or []),
    )


def _mutation(item: Mapping[str, Any], scope: Scope, composition: Composition) -> Mutation:
    is_json_patch = item.get("patchType") == "JSONPatch"
    body = item.get("jsonPatch" if is_json_patch else "applyConfiguration") or {}
    returns = (JSON_PATCHES,) if is_json_patch else (OBJECT,)
    source = (body.get("expression") or "").strip()
    compiled = compile_expression(source, scope._replace(patches=True), returns, composition)
    return Mutation(compiled, is_json_patch)


_Call = Call[MutatingPolicy]


def _key(call: _Call) -> tuple[str, str, str, str]:
    """What tells whether a call was made before."""
    namespace, name = metadata_text(call.param, "namespace"), metadata_text(call.param, "name")
    return call.policy.name, call.binding.name, namespace, name


class _MutationError(QuarterdeckError):
    """A mutation that could not be computed or applied."""


class _Failures:
    """Errors of one pass, without those of policies that ignore failures."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def add(self, policy: MutatingPolicy, bound: Binding | None, why: str, reason: str = "") -> None:
        if policy.ignores_failure:
            return
        subject = (
            f"policy '{policy.name}' with binding '{bound.name}'" if bound else f'policy "{policy.name}"'
        )
        self.texts.append((f"{subject} denied request: {why}", reason))


class MutatingPolicies:
    """All mutating policies of a server."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.table: PolicyTable[MutatingPolicy] = PolicyTable(host, mutating_policy)

    async def mutate(self, attributes: Attributes) -> None:
        """Apply what matches to `attributes.object`; raises StatusError when a mutation fails."""
        bound = self.table.covering(
            attributes.group, attributes.resource, attributes.subresource, attributes.operation
        )
        if not bound:
            return
        failures = _Failures()
        calls: list[_Call] = []
        for policy, bindings in bound:
            calls += await calls_of(policy, bindings, attributes, self._host, partial(failures.add, policy))
        if calls:
            await self._run(calls, attributes, failures)
        if failures.texts:
            raise _refusal(attributes, failures.texts)

    async def _run(self, calls: list[_Call], attributes: Attributes, failures: _Failures) -> None:
        state = attributes.reinvocation(_PLUGIN)
        if attributes.is_reinvocation and state.output != attributes.object:
            state.object_changed()
        namespace = namespace_of(attributes, self._host)
        view = VersionedView(attributes, self._host)
        for call in calls:
            pair = await view.get(call.match.kind)
            try:
                applies = await in_turns(partial(self._applies, call, attributes, pair, namespace))
            except ConditionError as error:
                failures.add(call.policy, call.binding, str(error), "Invalid")
                continue
            if not applies or (attributes.is_reinvocation and not state.runs_again(_key(call))):
                continue
            before = pair.object
            for mutation in call.policy.mutations:
                if pair.object is None:
                    break
                try:
                    evaluate = partial(self._value, call, mutation, attributes, pair, namespace)
                    view.replace(self._mutated(mutation, pair, await in_turns(evaluate)))
                except _MutationError as error:
                    failures.add(call.policy, call.binding, str(error), "Invalid")
            if pair.object != before:
                state.object_changed()
                attributes.needs_reinvocation = True
            if call.policy.reinvokes:
                state.ran(_key(call))
        await view.flush()
        state.remember(attributes.object)

    def _applies(
        self, call: _Call, attributes: Attributes, pair: VersionedPair, namespace: Json | None
    ) -> bool:
        conditions = call.policy.conditions
        return not conditions or conditions.hold_in(
            activation_of(call, attributes, pair, self._host, namespace)
        )

    def _value(
        self,
        call: _Call,
        mutation: Mutation,
        attributes: Attributes,
        pair: VersionedPair,
        namespace: Json | None,
    ) -> Any:
        if mutation.expression.program is None:
            raise _MutationError(mutation.expression.error)
        activation = activation_of(call, attributes, pair, self._host, namespace)
        try:
            return activation.evaluate(mutation.expression, Budget())
        except (ExpressionError, OutOfBudget) as error:
            raise _MutationError(str(error)) from error

    def _mutated(self, mutation: Mutation, pair: VersionedPair, value: Any) -> Json:
        if mutation.is_json_patch:
            return self._patched(pair, value)
        return self._applied(pair, value)

    def _applied(self, pair: VersionedPair, value: Any) -> Json:
        assert pair.object is not None
        _check_type_names(value, "Object")
        try:
            patch: Json = plain(value)
            typed = {**patch, "apiVersion": pair.kind.api_version, "kind": pair.kind.kind}
            merged = self._host.merge(pair.object, typed, pair.kind)
            return self._host.settle(merged, pair.kind)
        except CelRuntimeError as error:
            raise _MutationError(f"invalid return type: {error.message}") from error
        except ValueError as error:
            raise _MutationError(f"error applying patch: {error}") from error

    def _patched(self, pair: VersionedPair, value: Any) -> Json:
        assert pair.object is not None
        operations = [_operation(item) for item in value]
        try:
            result = patched(pair.object, operations)
        except TestFailed:  # a failed test means: not this object
            return pair.object
        except PatchError as error:
            raise _MutationError(f"JSON Patch: {error}") from error
        try:
            return self._host.settle(result, pair.kind)
        except ValueError as error:
            raise status.internal(str(error)) from error


def _check_type_names(value: Any, root: str) -> None:
    problems = type_name_problems(value, root)
    if problems:
        raise _MutationError("type mismatch: " + "\n".join(problems))


def _operation(item: StructValue) -> Json:
    fields = item.fields
    operation: Json = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        value = fields["value"]
        if isinstance(value, StructValue):
            _check_type_names(value, value.type_name)
        try:
            operation["value"] = plain(value)
        except CelRuntimeError as error:
            why = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
            raise _MutationError(f"{why}: {error.message}") from error
    return operation


def _refusal(attributes: Attributes, failures: list[tuple[str, str]]) -> status.StatusError:
    """403 with the first failure's text, and all of them as causes."""
    forbidden = attributes.forbidden("")
    message, reason = failures[0]
    return status.StatusError(
        403,
        message,
        reason=reason or "Forbidden",
        details={**(forbidden.details or {}), "causes": [{"message": text} for text, _ in failures]},
    )
