"""The conversion of NodeGroups, for the runtime's conversion endpoint.

It is no hub-and-spoke ``Conversion``: a lossless step must know both ends (what the target loses of the
source), and the provider configuration is read once per review, when the first group needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Any, Final

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.logic.clusterstate import StateError
from quarterdeck.operators.nodegroup.logic.conversion import convert, resolve
from quarterdeck.runtime.webhook import ReviewConversion, ReviewFailed

from .document import read_document
from .state import ClusterReader

_encode: Final = msgspec.json.Encoder().encode


class NodeGroupConverter:
    """Converts NodeGroups; for ``WebhookServer.add_conversion``."""

    gvk: Final = GroupVersionKind(names.GROUP, "v1", names.KIND)
    definition: Final = names.CRD_NAME

    def __init__(self, cluster: ClusterReader) -> None:
        self._cluster: Final = cluster

    async def begin(self, target: str) -> ReviewConversion:
        """Nothing to prepare: the cluster's state is read only if a group depends on it."""
        return _Review(self._cluster, target)


class _Review:
    __slots__ = ("_cluster", "_permanent", "_source", "_target")

    def __init__(self, cluster: ClusterReader, target: str) -> None:
        self._cluster: Final = cluster
        self._target: Final = target
        self._source = ""
        self._permanent: Collection[str] | None = None

    def run(self, raw: msgspec.Raw, source: str | None = None) -> bytes | Awaitable[bytes] | None:
        document = read_document(raw)
        if source is not None:
            self._source = source
        elif not _has_head(document, self._source):
            return None
        unresolved: list[Any] = []
        converted = convert(document, self._target, unresolved)
        if converted is document:
            return bytes(raw)
        return self._resolve(converted) if unresolved else _encode(converted)

    async def _resolve(self, document: dict[str, Any]) -> bytes:
        resolve(document, await self._permanent_groups())
        return _encode(document)

    async def _permanent_groups(self) -> Collection[str]:
        if self._permanent is None:
            try:
                self._permanent = await self._cluster.permanent_groups()
            except StateError as error:
                raise ReviewFailed(str(error)) from error
        return self._permanent


def _has_head(document: Any, version: str) -> bool:
    return (
        type(document) is dict
        and document.get("apiVersion") == version
        and document.get("kind") == names.KIND
    )
