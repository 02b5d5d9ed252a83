"""PATCH in its four forms."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.registry.body import check_identity, check_namespace, check_problems, problem_texts
from quarterdeck.apiserver.registry.patch.applybody import check_repeated_keys, parse_apply, unconvertible
from quarterdeck.apiserver.registry.patch.patchbody import APPLY_YAML, PatchBody, check_patch_type
from quarterdeck.apiserver.registry.patch.patchresult import decode_patched
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.change import Manner
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.apiserver.resource.resource import Undecodable
from quarterdeck.apiserver.resource.strategy import Strategy
from quarterdeck.wire.http import Response
from quarterdeck.wire.jsonvalue import deep_copy


class Patcher:
    """Runs patches through the writer's update pipeline."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def patch(self, request: ApiRequest, rules: Strategy | None = None) -> Response:
        """`rules` stand in for the kind's strategy where a subresource has different ones."""
        media = decoding.media_type(request.http.headers.get("content-type", ""))
        check_patch_type(media, is_custom=request.resource.is_custom)
        if media == APPLY_YAML:
            return await self._apply(request, rules)
        return await self._patch(request, media, rules)

    async def _patch(self, request: ApiRequest, media: str, rules: Strategy | None) -> Response:
        options = WriteOptions.of(request, "PatchOptions")
        change = PatchBody(media, request.http.body)

        async def transform(old: Json | None, context: Context) -> Json:
            assert old is not None
            settled = old if context.is_settled and change.may_share(request) else None
            patched = change.apply(old, request.resource, shares=settled is not None)
            return decode_patched(request, options, patched, change, settled)

        return await self._writer.modify(request, options, transform, Manner(is_patch=True, rules=rules))

    async def _apply(self, request: ApiRequest, rules: Strategy | None) -> Response:
        options = WriteOptions.of(request, "PatchOptions", is_apply=True)
        config = parse_apply(request)
        check_repeated_keys(request, options, config)
        resource = request.resource

        async def transform(old: Json | None, context: Context) -> Json:
            merged = await resource.track(
                lambda owners: owners.apply(
                    old,
                    deep_copy(config),
                    manager=options.field_manager,
                    api_version=resource.api_version,
                    force=bool(options.force),
                    subresource=request.info.subresource,
                    now=context.now,
                )
            )
            try:
                obj, unknown = resource.decode(merged, applied=True)
            except Undecodable as error:
                raise unconvertible(resource, config, error) from None
            if not resource.is_custom:  # a custom one is pruned in silence where its schema lets it through
                check_problems(request, options, problem_texts([], unknown))
            resource.strategy.default(obj)
            # what was merged is checked: a configuration may leave out the name of an object that exists
            check_identity(request, obj)
            check_namespace(request, obj)
            return obj

        manner = Manner(is_patch=True, is_apply=True, rules=rules)
        return await self._writer.modify(request, options, transform, manner)
