"""The state of one pool against a list of what exists, and its index against one built anew.

A list and the table are never of the same moment: what one of them does not have may just be late. So a
difference counts only if it is still there when another list was taken.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import msgspec

from .facts import Member
from .poolstate import PoolState


class Difference(msgspec.Struct, frozen=True):
    """A Subnet that the table has otherwise than the list."""

    uid: str
    listed: Member | None
    """As the list has it; ``None`` if it is not in the list."""


def differences(state: PoolState, listed: Iterable[Member], version: int) -> set[Difference]:
    """What a list of this version has otherwise than the state; what is younger does not count."""
    found: set[Difference] = set()
    seen: set[str] = set()
    for member in listed:
        seen.add(member.uid)
        known = state.members.get(member.uid)
        if known is None or (known.version <= member.version and known.network != member.network):
            found.add(Difference(member.uid, member))
    for uid, known in state.members.items():
        if uid not in seen and known.version <= version:
            found.add(Difference(uid, None))
    return found


def rebuilding(state: PoolState) -> Generator[None, None, PoolState]:
    """Build a state of the same contents from scratch, in steps; the state may change meanwhile."""
    fresh = PoolState(state.key)
    fresh.facts = state.facts
    for member in list(state.members.values()):
        fresh.add_member(member)
    yield from fresh.rebuild()
    for uid in [uid for uid, member in fresh.members.items() if state.members.get(uid) is not member]:
        fresh.remove_member(uid)
    for member in [member for uid, member in state.members.items() if uid not in fresh.members]:
        fresh.add_member(member)
    for child in state.children.values():
        fresh.put_child(child)
    for holder, foreign in state.foreign.items():
        fresh.put_foreign(holder, foreign)
    for reservation in state.reservations.values():
        fresh.reserve(reservation)
    return fresh
