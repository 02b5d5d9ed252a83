"""Admission webhooks: which are called for a write, in what order, and what their answers do to it.

Configurations are compiled when they change (`Webhooks.apply_change`); a request only looks up the
webhooks that cover its resource and operation. Mutating webhooks run one after the other, each on
the outcome of those before it; validating ones run at the same time.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.decoding import go_json_error
from quarterdeck.apiserver.webhookclient import (
    CallFault,
    ConfigurationFault,
    Endpoint,
    WebhookClient,
    endpoint,
)
from quarterdeck.errors import PatchError, QuarterdeckError
from quarterdeck.wire import gostyle
from quarterdeck.wire.turn import in_turns

from .attributes import Attributes, Host
from .matchconditions import ConditionError, MatchConditions
from .matching import Criteria, Match, is_exempt, rule
from .objectpatch import check_kind, patched
from .review import KNOWN_VERSIONS, Response, ReviewFault, encode_review, read_response, refusal
from .version import VersionCache, VersionedPair, VersionedView

_PLUGIN: Final = "MutatingAdmissionWebhook"
_DEFAULT_TIMEOUT: Final = 10
_Key = tuple[str, str, str, str]


class Webhook(msgspec.Struct, frozen=True, eq=False):
    """One webhook of a configuration, compiled."""

    uid: str
    name: str
    criteria: Criteria
    conditions: MatchConditions
    target: Endpoint
    timeout: int
    side_effects: str
    ignores_failure: bool
    reinvokes: bool
    review_version: str

    def match(self, attributes: Attributes, host: Host, current: Json | None = None) -> Match | None:
        return self.criteria.match(attributes, host, current)


def webhook(configuration: str, index: int, document: Mapping[str, Any]) -> Webhook:
    """Compile an entry of `webhooks`; what validation would refuse makes calls fail, not this."""
    name = document.get("name", "")
    ignores = document.get("failurePolicy") == "Ignore"
    accepted = [v for v in document.get("admissionReviewVersions") or [] if v in KNOWN_VERSIONS]
    return Webhook(
        uid=f"{configuration}/{name}/{index}",
        name=name,
        criteria=Criteria(
            rules=[rule(item) for item in document.get("rules") or []],
            namespace_selector=document.get("namespaceSelector"),
            object_selector=document.get("objectSelector"),
            match_policy=document.get("matchPolicy") or "Equivalent",
        ),
        conditions=MatchConditions(document.get("matchConditions") or [], ignores_failure=ignores),
        target=endpoint(document.get("clientConfig") or {}),
        timeout=document.get("timeoutSeconds") or _DEFAULT_TIMEOUT,
        side_effects=document.get("sideEffects") or "",
        ignores_failure=ignores,
        reinvokes=document.get("reinvocationPolicy") == "IfNeeded",
        review_version=accepted[0] if accepted else "",
    )


class WebhookTable:
    """The webhooks of one kind of configuration, in calling order, found by what they cover."""

    def __init__(self, host: Host, client: WebhookClient) -> None:
        self._host = host
        self._client = client
        self._configurations: dict[str, tuple[Webhook, ...]] = {}
        self._ordered: tuple[Webhook, ...] = ()
        self._covering: dict[_Key, tuple[Webhook, ...]] = {}

    def apply_change(self, name: str, obj: Json | None) -> None:
        entries = enumerate((obj or {}).get("webhooks") or [])
        compiled = tuple(webhook(name, index, entry) for index, entry in entries)
        before = self._configurations.pop(name, ())
        if compiled:
            self._configurations[name] = compiled
        for target in {hook.target for hook in before} - {hook.target for hook in compiled}:
            self._client.forget(target)
        self._ordered = tuple(
            hook for key in sorted(self._configurations) for hook in self._configurations[key]
        )
        self._covering = {}

    def covering(self, group: str, resource: str, subresource: str, operation: str) -> tuple[Webhook, ...]:
        """The webhooks that may match; almost always none, so this is the fast path of every write."""
        if not self._ordered:
            return ()
        key = (group, resource, subresource, operation)
        found = self._covering.get(key)
        if found is None:
            found = self._covering[key] = self._find(*key)
        return found

    def _find(self, group: str, resource: str, subresource: str, operation: str) -> tuple[Webhook, ...]:
        if is_exempt(group, resource):
            return ()
        names = {(group, resource)}
        for served in self._host.equivalents(group, resource, subresource):
            names.add((served.resource.group, served.resource.resource))
        return tuple(
            hook
            for hook in self._ordered
            if any(hook.criteria.covers(g, r, subresource, operation) for g, r in names)
        )


class _Failed(QuarterdeckError):
    """A webhook that gave no usable answer; failurePolicy decides."""


class Webhooks:
    """Both kinds of webhook configurations and the calls to them."""

    def __init__(self, host: Host, client: WebhookClient) -> None:
        self._host = host
        self._client = client
        self.mutating = WebhookTable(host, client)
        self.validating = WebhookTable(host, client)

    async def mutate(self, attributes: Attributes) -> None:
        """Call the mutating webhooks; changes end up in `attributes.object`."""
        hooks = self.mutating.covering(
            attributes.group, attributes.resource, attributes.subresource, attributes.operation
        )
        if not hooks:
            return
        state = attributes.reinvocation(_PLUGIN)
        if attributes.is_reinvocation and state.output != attributes.object:
            state.object_changed()
        view = VersionedView(attributes, self._host)
        try:
            for hook in hooks:
                await self._mutate_one(hook, attributes, view)
        finally:
            await view.flush()
        state.remember(attributes.object)

    async def _mutate_one(self, hook: Webhook, attributes: Attributes, view: VersionedView) -> None:
        match = hook.match(attributes, self._host, view.current)
        if match is None:
            return
        state = attributes.reinvocation(_PLUGIN)
        try:
            pair = await view.get(match.kind)
        except status.StatusError as error:
            if not hook.conditions:
                raise
            raise status.internal(str(error)) from error  # once more, as where upstream asks the conditions
        if hook.conditions and not await self._conditions_hold(hook, attributes, match, pair):
            return
        if attributes.is_reinvocation and not state.runs_again(hook.uid):
            return
        try:
            response = await self._call(hook, attributes, match, pair, is_mutating=True)
            changed = self._patched(hook, response, pair)
        except _Failed as error:
            if not hook.ignores_failure:
                raise status.internal(str(error)) from error
            changed = None
        if changed is not None:
            if changed != pair.object:
                state.object_changed()
                attributes.needs_reinvocation = True
            view.replace(changed)
        if hook.reinvokes:
            state.ran(hook.uid)

    def _patched(self, hook: Webhook, response: Response, pair: VersionedPair) -> Json | None:
        """The object after the response's patch, or None when there is nothing to change."""
        if not response.allowed:
            raise refusal(hook.name, response.result)
        if not response.patch:
            return None
        operations = _operations(hook, response.patch)
        if not operations:
            return None
        if pair.object is None:
            raise status.internal(
                f"admission webhook {gostyle.quote(hook.name)} attempted to modify the object, "
                "which is not supported for this operation"
            )
        if response.patch_type != "JSONPatch":
            raise _failed(hook, f"unsupported patch type {gostyle.quote(response.patch_type)}")
        try:
            changed = patched(pair.object, operations)
            check_kind(changed, pair.kind)
            return self._host.settle(changed, pair.kind)
        except (PatchError, ValueError) as error:
            raise status.internal(str(error)) from error

    async def validate(self, attributes: Attributes) -> None:
        """Call the validating webhooks; raises the first refusal in calling order."""
        hooks = self.validating.covering(
            attributes.group, attributes.resource, attributes.subresource, attributes.operation
        )
        if not hooks:
            return
        versions = VersionCache(attributes, self._host)
        calls: list[tuple[Webhook, Match, VersionedPair]] = []
        for hook in hooks:
            match = hook.match(attributes, self._host)
            if match is None:
                continue
            pair = await versions.get(match.kind)
            if hook.conditions and not await self._conditions_hold(hook, attributes, match, pair):
                continue
            calls.append((hook, match, pair))
        if len(calls) == 1:
            await self._validate_one(attributes, *calls[0])
        elif calls:
            await self._validate_all(attributes, calls)

    async def _validate_all(
        self, attributes: Attributes, calls: Sequence[tuple[Webhook, Match, VersionedPair]]
    ) -> None:
        async def outcome(call: tuple[Webhook, Match, VersionedPair]) -> status.StatusError | None:
            try:
                await self._validate_one(attributes, *call)
            except status.StatusError as error:
                return error
            return None

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(outcome(call)) for call in calls]
        for task in tasks:
            error = task.result()
            if error is not None:
                raise error

    async def _validate_one(
        self, attributes: Attributes, hook: Webhook, match: Match, pair: VersionedPair
    ) -> None:
        try:
            response = await self._call(hook, attributes, match, pair, is_mutating=False)
        except _Failed as error:
            if hook.ignores_failure:
                return
            raise status.internal(str(error)) from error
        if not response.allowed:
            raise refusal(hook.name, response.result)

    async def _conditions_hold(
        self, hook: Webhook, attributes: Attributes, match: Match, pair: VersionedPair
    ) -> bool:
        try:
            return await in_turns(lambda: hook.conditions.hold(attributes, match, pair, host=self._host))
        except ConditionError as error:
            raise status.forbidden(
                attributes.resource, attributes.group, attributes.name, str(error)
            ) from error

    async def _call(
        self, hook: Webhook, attributes: Attributes, match: Match, pair: VersionedPair, *, is_mutating: bool
    ) -> Response:
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise status.bad_request(f"admission webhook {gostyle.quote(hook.name)} does not support dry run")
        if not hook.review_version:
            raise _failed(
                hook,
                "could not create admission objects: "
                "webhook does not accept known AdmissionReview versions (v1, v1beta1)",
            )
        uid = str(uuid.uuid4())
        body = encode_review(attributes, match, pair, uid, hook.review_version)
        try:
            document = await self._client.post(hook.target, body, timeout=hook.timeout)
            response = read_response(document, uid=uid, version=hook.review_version, is_mutating=is_mutating)
        except ConfigurationFault as error:
            raise _failed(hook, f"could not get REST client: {error}") from error
        except CallFault as error:
            raise _failed(hook, f"failed to call webhook: {error}") from error
        except ReviewFault as error:
            raise _failed(hook, error.text) from error
        for text in response.warnings:
            attributes.warn(text)
        return response


def _failed(hook: Webhook, why: str) -> _Failed:
    return _Failed(f"failed calling webhook {gostyle.quote(hook.name)}: {why}")


def _operations(hook: Webhook, patch: bytes) -> list[Any]:
    try:
        operations = msgspec.json.decode(patch)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _failed(
            hook, f"received undecodable patch in webhook response: {go_json_error(patch)}"
        ) from error
    if operations is None:
        return []
    if not isinstance(operations, list):
        kind = "object" if isinstance(operations, dict) else "string"
        raise _failed(
            hook,
            "received undecodable patch in webhook response: "
            f"json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch",
        )
    return operations
