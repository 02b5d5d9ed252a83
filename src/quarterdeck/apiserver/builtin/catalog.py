"""Which strategy serves which built-in resource."""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.strategy import Strategy

from .configmap import ConfigMapStrategy
from .kind import BuiltinStrategy
from .namespace import NamespaceStrategy
from .persistentvolume import PersistentVolumeClaimStrategy, PersistentVolumeStrategy
from .pod import PodStrategy
from .podsubresource import PodEphemeralContainersStrategy, PodResizeStrategy
from .secret import SecretStrategy
from .serviceaccount import ServiceAccountStrategy

_STRATEGIES: Final[dict[tuple[str, str], Strategy]] = {
    ("", "configmaps"): ConfigMapStrategy(),
    ("", "namespaces"): NamespaceStrategy(),
    ("", "persistentvolumeclaims"): PersistentVolumeClaimStrategy(),
    ("", "persistentvolumes"): PersistentVolumeStrategy(),
    ("", "pods"): PodStrategy(),
    ("", "pods/ephemeralcontainers"): PodEphemeralContainersStrategy(),
    ("", "pods/resize"): PodResizeStrategy(),
    ("", "secrets"): SecretStrategy(),
    ("", "serviceaccounts"): ServiceAccountStrategy(),
}
_PLAIN: Final = BuiltinStrategy()


def strategy_for(group: str, resource: str) -> Strategy:
    """The strategy of a built-in resource; a plain one for resources without rules of their own."""
    return _STRATEGIES.get((group, resource), _PLAIN)
