"""Who a node agent is, and what it may do beyond a node's own affairs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.apiserver.auth.certificates import Authority
    from quarterdeck.client import Client

_GROUP = "rbac.authorization.k8s.io"


def write_node_kubeconfig(path: Path, *, server: str, authority: Authority, node: str) -> None:
    """Write a kubeconfig for ``system:node:<name>``, readable by its owner only. Blocking."""
    from quarterdeck.apiserver.auth import UserInfo, build_kubeconfig, write_kubeconfig

    who = UserInfo(f"system:node:{node}", groups=("system:nodes",))
    pair = authority.issue_client(who, datetime.now(UTC))
    write_kubeconfig(path, build_kubeconfig(server, authority, pair, name=f"node-{node}"))


async def allow_node(client: Client, node: str) -> None:
    """Let a node follow Services as a proxy does; its own affairs are the Node authorizer's business.

    With the first node come the RuntimeClasses by which pods choose how they run.
    """
    from quarterdeck.api import DynamicObject, ObjectMeta
    from quarterdeck.api.k8s.rbac import ClusterRoleBinding, RoleRef, Subject
    from quarterdeck.errors import ignore_already_exists

    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=f"quarterdeck:node-proxier:{node}"),
        role_ref=RoleRef(api_group=_GROUP, kind="ClusterRole", name="system:node-proxier"),
        subjects=(Subject(api_group=_GROUP, kind="User", name=f"system:node:{node}"),),
    )
    with ignore_already_exists():
        await client.create(binding)
    for runtime in ("process", "oci"):
        with ignore_already_exists():
            await client.create(DynamicObject(_runtime_class(runtime)))


def _runtime_class(runtime: str) -> dict[str, Any]:
    from quarterdeck.cluster.agent.names import RUNTIME

    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": runtime},
        "handler": runtime,
        "scheduling": {"nodeSelector": {f"{RUNTIME}-{runtime}": "true"}},
    }
