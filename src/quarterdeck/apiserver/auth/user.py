"""Who makes a request: the value every authenticator produces and every authorizer reads.

Names, groups and extra keys are Kubernetes' own. Nothing here decides what a user may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from quarterdeck.apiserver.metadata import label_errors, subdomain_errors

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS: Final = "system:anonymous"
NODES: Final = "system:nodes"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
NODE_UID: Final = "authentication.kubernetes.io/node-uid"

_SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NODE_PREFIX: Final = "system:node:"

Extra = Mapping[str, tuple[str, ...]]
_NO_EXTRA: Extra = {}


class UserInfo(msgspec.Struct, frozen=True):
    """An identity. `extra` is read-only by convention: one value is shared by many requests."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = msgspec.field(default_factory=lambda: _NO_EXTRA)

    @property
    def is_master(self) -> bool:
        """In system:masters, which no authorizer ever refuses."""
        return MASTERS in self.groups

    def with_group(self, group: str) -> UserInfo:
        """The same user, also in `group`."""
        if group in self.groups:
            return self
        return msgspec.structs.replace(self, groups=(*self.groups, group))

    def authenticated(self) -> UserInfo:
        """The same user in system:authenticated, unless it is explicitly in neither camp."""
        if self.name == ANONYMOUS or UNAUTHENTICATED in self.groups:
            return self
        return self.with_group(AUTHENTICATED)

    def to_json(self) -> dict[str, Any]:
        """The `userInfo` of admission reviews and of authentication.k8s.io; empty members are left out."""
        document: dict[str, Any] = {}
        if self.name:
            document["username"] = self.name
        if self.uid:
            document["uid"] = self.uid
        if self.groups:
            document["groups"] = list(self.groups)
        if self.extra:
            document["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return document


def service_account_username(namespace: str, name: str) -> str:
    return f"{_SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def split_service_account(username: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name, or None for any other name."""
    if not username.startswith(_SERVICE_ACCOUNT_PREFIX):
        return None
    parts = username.removeprefix(_SERVICE_ACCOUNT_PREFIX).split(":")
    if len(parts) != 2 or label_errors(parts[0]) or subdomain_errors(parts[1]):
        return None
    return parts[0], parts[1]


def split_node(username: str) -> str | None:
    """The node of a user name `system:node:<node>`, or None for any other name."""
    if not username.startswith(_NODE_PREFIX):
        return None
    node = username.removeprefix(_NODE_PREFIX)
    return None if subdomain_errors(node) else node


def node_identity(user: UserInfo) -> str | None:
    """The node that a user is, "" for a node without a name, None for everybody else."""
    if NODES not in user.groups or not user.name.startswith(_NODE_PREFIX):
        return None
    return user.name.removeprefix(_NODE_PREFIX)
