"""What the webhooks read from the cluster.

``ClusterReader`` reads from the server or from a cache. Missing objects mean defaults; every other failure
becomes a ``StateError`` with the text the user gets to see.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from quarterdeck.api import PartialObjectMetadata, Resource, Selector
from quarterdeck.api.k8s import Endpoints, Node, Secret
from quarterdeck.client import AnyKind, Client, metadata_of
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.index import NODES_BY_GROUP
from quarterdeck.operators.nodegroup.logic import clusterstate
from quarterdeck.operators.nodegroup.logic.clusterstate import ClusterConfiguration, StateError
from quarterdeck.operators.nodegroup.types import ModuleConfig
from quarterdeck.runtime.cache import Cache, Informer

R = TypeVar("R", bound=Resource)
NODES: Final = metadata_of(Node)


class Reader(Protocol):
    """How cluster state is read."""

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object; raises ``NotFound``."""
        ...

    async def nodes(self, group: str, label: str, value: str) -> Sequence[PartialObjectMetadata]:
        """The heads of the Nodes of a group that have a label with this value."""
        ...


class LiveReader:
    """Reads from the server."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object; raises ``NotFound``."""
        return await self._client.get(kind, name, namespace)

    async def nodes(self, group: str, label: str, value: str) -> Sequence[PartialObjectMetadata]:
        """The heads of the Nodes of a group that have a label with this value."""
        return await self._client.list(NODES, labels={names.GROUP_LABEL: group, label: value})


class SyncedReader:
    """Reads from a cache once it is filled, and from the server until then.

    The API server may call while this process starts: an answer that waits for a cache would be late, and a
    cache whose first list waits for that answer would never be filled.
    """

    def __init__(self, cache: Cache, live: Reader) -> None:
        """The cache must keep the index ``NODES_BY_GROUP``."""
        self._cache: Final = cache
        self._live: Final = live
        self._informers: Final[dict[AnyKind, Informer]] = {}

    async def get(self, kind: type[R], name: str, namespace: str = "") -> R:
        """One object; raises ``NotFound``."""
        source = self._cache if self._is_filled(kind) else self._live
        return await source.get(kind, name, namespace)

    async def nodes(self, group: str, label: str, value: str) -> Sequence[PartialObjectMetadata]:
        """The heads of the Nodes of a group that have a label with this value."""
        if not self._is_filled(NODES):
            return await self._live.nodes(group, label, value)
        return await self._cache.list(NODES, index=NODES_BY_GROUP(group), labels=_selector(label, value))

    def _is_filled(self, kind: AnyKind) -> bool:
        informer = self._informers.get(kind)
        if informer is None:
            if not self._cache.has_informer(kind):
                return False
            informer = self._informers[kind] = self._cache.informer(kind)
        return informer.has_synced or informer.is_absent


@cache
def _selector(label: str, value: str) -> Selector:
    return Selector.of({label: value})


class ClusterReader:
    """Reads the cluster's state for conversion and validation."""

    def __init__(self, reader: Reader, *, live: Reader | None = None) -> None:
        """``live`` is asked for Endpoints, which must not come from a cache; by default ``reader``."""
        self._reader: Final = reader
        self._live: Final = live if live is not None else reader

    async def configuration(self) -> ClusterConfiguration:
        """The cluster's configuration."""
        try:
            content = await self._secret_value(
                names.CLUSTER_CONFIGURATION_SECRET, names.CLUSTER_CONFIGURATION_KEY
            )
        except QuarterdeckError as error:
            raise StateError(f"failed to load cluster config: {error}") from error
        return clusterstate.cluster_configuration(content) if content is not None else ClusterConfiguration()

    async def global_prefix(self) -> str:
        """The prefix of machine names in the global settings; empty unless set."""
        try:
            return clusterstate.global_prefix(await self._global_settings())
        except QuarterdeckError as error:
            raise StateError(f"failed to load cluster config: {error}") from error

    async def permanent_groups(self) -> Collection[str]:
        """The groups in the provider's cluster configuration."""
        try:
            content = await self._secret_value(names.PROVIDER_SECRET, names.PROVIDER_CONFIGURATION_KEY)
        except QuarterdeckError as error:
            secret = f"{names.SYSTEM_NAMESPACE}/{names.PROVIDER_SECRET}"
            raise StateError(
                f"failed to load provider config: failed to get secret {secret}: {error}"
            ) from error
        return clusterstate.permanent_groups(content) if content is not None else ()

    async def zones(self) -> Sequence[str]:
        """The zones the provider knows."""
        try:
            content = await self._secret_value(names.PROVIDER_SECRET, names.DISCOVERY_DATA_KEY)
        except QuarterdeckError as error:
            raise StateError(f"failed to load provider cluster config: {error}") from error
        return clusterstate.known_zones(content) if content is not None else ()

    async def toleration_keys(self) -> Collection[str]:
        """Taint keys that the cluster's own pods tolerate."""
        try:
            return clusterstate.toleration_keys(await self._global_settings())
        except QuarterdeckError as error:
            raise StateError(f"failed to load custom toleration keys: {error}") from error

    async def endpoints(self) -> int:
        """How many API servers are ready."""
        try:
            found = await self._live.get(Endpoints, "kubernetes", "default")
        except NotFound:
            return 0
        except QuarterdeckError as error:
            raise StateError(f"failed to get kubernetes endpoints: {error}") from error
        return sum(len(subset.addresses) for subset in found.subsets)

    async def custom_nodes(self, group: str) -> Sequence[str]:
        """Nodes of a group whose containerd configuration was changed by hand, sorted."""
        try:
            return await self._node_names(group, names.CONTAINERD_CONFIG_LABEL, names.CUSTOM_CONFIG)
        except QuarterdeckError as error:
            raise StateError(f"failed to get nodes with custom containerd: {error}") from error

    async def unsupported_nodes(self, group: str) -> Sequence[str]:
        """Nodes of a group without cgroup v2, sorted; the error says only why they are unknown."""
        try:
            return await self._node_names(group, names.CONTAINERD_V2_UNSUPPORTED_LABEL, "")
        except QuarterdeckError as error:
            raise StateError(str(error)) from error

    async def _node_names(self, group: str, label: str, value: str) -> Sequence[str]:
        return sorted(node.metadata.name for node in await self._reader.nodes(group, label, value))

    async def _secret_value(self, name: str, key: str) -> bytes | None:
        try:
            secret = await self._reader.get(Secret, name, names.SYSTEM_NAMESPACE)
        except NotFound:
            return None
        return secret.data.get(key)

    async def _global_settings(self) -> Mapping[str, Any]:
        try:
            config = await self._reader.get(ModuleConfig, names.GLOBAL_MODULE_CONFIG)
        except NotFound:
            return {}
        return (config.spec and config.spec.settings) or {}
