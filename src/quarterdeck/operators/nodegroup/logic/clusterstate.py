"""What conversion and validation need to know about the cluster, and how it is read from documents.

The documents come from Secrets and a ModuleConfig that other parts of Deckhouse write. Missing means
default; malformed is a ``StateError``, whose text is the answer of the webhook.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.nodegroup import names

_DEFAULT_NODE_PREFIX: Final = 24
_INTEGER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)


class StateError(QuarterdeckError):
    """The cluster's state cannot be read; the text says which part and why."""


class ClusterConfiguration(msgspec.Struct, frozen=True):
    """The cluster's own settings."""

    cluster_type: str = ""
    """``Cloud``, ``Static`` or empty."""
    prefix: str = ""
    """First part of the names of cloud machines."""
    default_cri: str = ""
    node_prefix: int = _DEFAULT_NODE_PREFIX
    """Length of the prefix of a node's pod subnet."""
    kubernetes_version: str = ""
    """Like ``1.33``; empty if Deckhouse chooses it."""

    def effective_cri(self, spec: Mapping[str, Any]) -> str:
        """The container runtime of a group: its own, the cluster's, or containerd."""
        own: str = (spec.get("cri") or {}).get("type") or ""
        return own or self.default_cri or names.CONTAINERD


@lru_cache(maxsize=4)
def cluster_configuration(content: bytes) -> ClusterConfiguration:
    """Read ``cluster-configuration.yaml``; raises ``StateError``."""
    try:
        document = _mapping(_decoded_again(content))
    except ValueError as error:
        reason = f"failed to parse {names.CLUSTER_CONFIGURATION_KEY}: {error}"
        raise StateError(f"failed to load cluster config: {reason}") from error
    cloud = document.get("cloud")
    return ClusterConfiguration(
        cluster_type=_text(document.get("clusterType")),
        prefix=_text(cloud.get("prefix")) if isinstance(cloud, dict) else "",
        default_cri=_text(document.get("defaultCRI")),
        node_prefix=_node_prefix(document.get("podSubnetNodeCIDRPrefix")),
        kubernetes_version=_version(document.get("kubernetesVersion")),
    )


@lru_cache(maxsize=4)
def permanent_groups(content: bytes) -> frozenset[str]:
    """The groups that ``cloud-provider-cluster-configuration.yaml`` lists; raises ``StateError``."""
    try:
        groups = _mapping(content).get("nodeGroups")
        if groups is None:
            return frozenset()
        if not isinstance(groups, list):
            raise ValueError("nodeGroups is not a list")
        for index, group in enumerate(groups):
            if not isinstance(group, dict):
                raise ValueError(f"nodeGroups[{index}] is not a mapping")
    except ValueError as error:
        reason = f"failed to parse {names.PROVIDER_CONFIGURATION_KEY}: {error}"
        raise StateError(f"failed to load provider config: {reason}") from error
    return frozenset(name for group in groups if (name := _text(group.get("name"))))


@lru_cache(maxsize=4)
def known_zones(content: bytes) -> tuple[str, ...]:
    """The zones in ``cloud-provider-discovery-data.json``; raises ``StateError``."""
    if not content.strip():
        return ()
    try:
        data = msgspec.json.decode(content, type=_DiscoveryData | None)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        reason = f"failed to parse {names.DISCOVERY_DATA_KEY}: {error}"
        raise StateError(f"failed to load provider cluster config: {reason}") from error
    return (data.zones if data is not None else None) or ()


def toleration_keys(settings: Mapping[str, Any]) -> frozenset[str]:
    """``modules.placement.customTolerationKeys`` of the global settings; none if it is not a list."""
    value: Any = settings
    for step in ("modules", "placement", "customTolerationKeys"):
        if not isinstance(value, Mapping):
            return frozenset()
        value = value.get(step)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return frozenset()
    return frozenset(key for key in value if isinstance(key, str))


def global_prefix(settings: Mapping[str, Any]) -> str:
    """``prefix`` of the global settings; it wins over that of the cluster configuration."""
    prefix = settings.get("prefix")
    return prefix if isinstance(prefix, str) else ""


class _DiscoveryData(msgspec.Struct):
    zones: tuple[str, ...] | None = None


def _mapping(content: bytes) -> dict[Any, Any]:
    """The first document of a YAML text, which must be a mapping or nothing; raises ``ValueError``."""
    try:
        # Not the parser in C: nesting that is too deep would end the process instead of raising.
        document = next(iter(yaml.load_all(content, Loader=yaml.SafeLoader)), None)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("not a mapping")
    return document


def _decoded_again(content: bytes) -> bytes:
    """Some installers encode the configuration twice."""
    try:
        decoded = base64.b64decode(b"".join(content.split()), validate=True)
        decoded.decode()
    except (binascii.Error, UnicodeDecodeError):
        return content
    return decoded


def _text(value: Any) -> str:
    """A text, also one that YAML took for a number; empty for anything else."""
    return value if isinstance(value, str) else str(value) if type(value) is int else ""


def _version(value: Any) -> str:
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else ""


def _node_prefix(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if type(value) is int and 1 <= value <= 32:
        return value
    return _DEFAULT_NODE_PREFIX
