"""ServiceAccount: metadata only; tokens are issued elsewhere."""

from __future__ import annotations

from quarterdeck.apiserver.strategy import Json, WriteContext

from .kind import BuiltinStrategy


class ServiceAccountStrategy(BuiltinStrategy):
    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        # secrets are bound by controllers, never by the creator
        pass
