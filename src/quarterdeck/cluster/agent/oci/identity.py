"""Who a container runs as: ids and groups, by the files of its image. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quarterdeck.cluster.agent.environment.variable import ContainerConfigError


class Identity(NamedTuple):
    """Ids of a container's program."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    home: str = ""
    name: str = ""
    """As the image calls it; empty if it does not."""


class _Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str


def find_identity(
    user: str,
    passwd: str,
    group: str,
    *,
    run_as_user: int | None = None,
    run_as_group: int | None = None,
    supplemental: Sequence[int] = (),
    is_strict: bool = False,
) -> Identity:
    """The ids for an image's ``User`` (``name``, ``id``, either with ``:group``) and a pod's wishes.

    ``is_strict`` leaves out the groups that the image gives its user. Raises ``ContainerConfigError`` for a
    name that the image does not have.
    """
    accounts = _accounts(passwd)
    wanted, _, wanted_group = user.partition(":")
    if run_as_user is not None:
        wanted, wanted_group = str(run_as_user), ""
    if wanted.isdigit() or not wanted:
        uid = int(wanted or "0")
        account = next((each for each in accounts if each.uid == uid), None)
    else:
        account = next((each for each in accounts if each.name == wanted), None)
        if account is None:
            raise ContainerConfigError(f"unable to find user {wanted}: no matching entries in passwd file")
        uid = account.uid
    gid = account.gid if account is not None else 0
    if wanted_group:
        gid = _group_id(wanted_group, group)
    if run_as_group is not None:
        gid = run_as_group
    name = account.name if account is not None else ""
    own = [] if is_strict or not name else _memberships(name, group)
    groups = tuple(dict.fromkeys([*own, *supplemental]))
    return Identity(uid, gid, groups, account.home if account is not None else "/", name)


def _accounts(passwd: str) -> list[_Account]:
    found = []
    for line in passwd.splitlines():
        parts = line.split(":")
        if len(parts) >= 6 and parts[2].isdigit() and parts[3].isdigit():
            found.append(_Account(parts[0], int(parts[2]), int(parts[3]), parts[5]))
    return found


def _group_id(wanted: str, group: str) -> int:
    if wanted.isdigit():
        return int(wanted)
    for name, number, _ in _groups(group):
        if name == wanted:
            return number
    raise ContainerConfigError(f"unable to find group {wanted}: no matching entries in group file")


def _memberships(user: str, group: str) -> list[int]:
    return [number for _, number, members in _groups(group) if user in members]


def _groups(group: str) -> list[tuple[str, int, list[str]]]:
    found = []
    for line in group.splitlines():
        parts = line.split(":")
        if len(parts) >= 3 and parts[2].isdigit():
            found.append((parts[0], int(parts[2]), parts[3].split(",") if len(parts) > 3 else []))
    return found
