"""The names of everything that is made for a PodCliqueSet."""

from __future__ import annotations


def base_gang(pcs: str, replica: int) -> str:
    """The base PodGang of a replica, its headless Service, and the subdomain of its pods."""
    return f"{pcs}-{replica}"


def standalone_clique(pcs: str, replica: int, clique: str) -> str:
    """A PodClique that is in no group."""
    return f"{pcs}-{replica}-{clique}"


def scaling_group(pcs: str, replica: int, group: str) -> str:
    """A PodCliqueScalingGroup."""
    return f"{pcs}-{replica}-{group}"


def group_clique(group: str, index: int, clique: str) -> str:
    """A PodClique of one replica of a group; ``group`` is the full name."""
    return f"{group}-{index}-{clique}"


def scaled_gang(group: str, index: int, min_available: int) -> str:
    """The PodGang of a replica beyond the minimum; ``group`` is the full name. They count from 0."""
    return f"{group}-{index - min_available}"


def hostname(clique: str, index: int) -> str:
    """The host name of a pod; ``clique`` is the full name."""
    return f"{clique}-{index}"


def pod_index(clique: str, name: str) -> int | None:
    """The index in a host name; nothing if it is none of this PodClique."""
    head, _, tail = name.rpartition("-")
    return int(tail) if head == clique and tail.isascii() and tail.isdigit() else None


def role(pcs: str) -> str:
    """The Role and the RoleBinding of the pods."""
    return f"grove.io:pcs:{pcs}"


def token_secret(pcs: str) -> str:
    """The Secret with the token of the init containers."""
    return f"{pcs}-ic-sat"


def legacy_token_secret(pcs: str) -> str:
    """The same until v0.1.0-alpha.11."""
    return f"{pcs}-initc-sa-token-secret"


def headless_address(pcs: str, replica: int, namespace: str) -> str:
    """Where the pods of a replica find each other."""
    return f"{base_gang(pcs, replica)}.{namespace}.svc.cluster.local"
