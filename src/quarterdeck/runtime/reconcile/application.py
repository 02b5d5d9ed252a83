"""Applies that need not be sent.

Server-side apply is idempotent, and every apply costs the server a request, even if nothing changes. A
reconcile that applies ten children at every run spends most of its requests on nothing. ``AppliedMemory``
remembers the hash of what was last applied to each object and the version that came of it. The same document
again need not be sent if the cached object still is that version, or still holds every applied value.

Where the memory cannot tell (a list was reordered, the process is new) the apply is sent: the answer
"send it" is always right.
"""

import hashlib
from collections import OrderedDict
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.api import GroupVersionKind, Key, Writable, to_dict
from quarterdeck.api.codec import decode_json
from quarterdeck.runtime.cache.entry import Entry

_LIMIT: Final = 100_000


_Slot: TypeAlias = tuple[GroupVersionKind, Key, str]
"""Which object, and which field manager applied it: two managers may apply different things."""


class _Applied(msgspec.Struct, frozen=True, gc=False):
    digest: bytes
    uid: str
    version: str
    rewinds: int
    """Of the cache: a server that was restored gives a version twice."""


class AppliedMemory:
    """What one controller applied last, per object and field manager."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit: Final = limit
        self._applied: OrderedDict[_Slot, _Applied] = OrderedDict()

    def __len__(self) -> int:
        return len(self._applied)

    def is_unchanged(
        self, obj: Writable, entry: Entry, manager: str, cluster: str = "", *, rewinds: int = 0
    ) -> bool:
        """Whether applying ``obj`` again would change nothing; ``entry`` is the cached object."""
        known = self._applied.get(_slot(obj, manager, cluster))
        if known is None or entry.uid != known.uid or entry.is_deleting:
            return False
        if known.digest != _digest(obj):
            return False
        if entry.resource_version == known.version and rewinds == known.rewinds:
            return True
        return holds(decode_json(entry.raw), _applied_part(to_dict(obj)))

    def applied(
        self, obj: Writable, answer: Writable, manager: str, cluster: str = "", *, rewinds: int = 0
    ) -> None:
        """``obj`` was applied, and ``answer`` came back."""
        metadata = answer.metadata
        slot = _slot(obj, manager, cluster)
        self._applied[slot] = _Applied(_digest(obj), metadata.uid, metadata.resource_version, rewinds)
        self._applied.move_to_end(slot)
        if len(self._applied) > self._limit:
            self._applied.popitem(last=False)


def _slot(obj: Writable, manager: str, cluster: str) -> _Slot:
    gvk = GroupVersionKind.parse(obj.api_version, obj.kind)
    return gvk, Key(obj.metadata.namespace, obj.metadata.name, cluster), manager


def _digest(obj: Writable) -> bytes:
    return hashlib.blake2b(obj.to_bytes(), digest_size=16).digest()


_IGNORED: Final = frozenset({"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"})


def _applied_part(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in document.get("metadata", {}).items() if k not in _IGNORED}
    return {**document, "metadata": metadata}


def holds(present: Any, wanted: Any) -> bool:
    """Whether a document has every value of another; lists must have the same length and order.

    Defaults that the server added are no difference; a value it wrote in another form is.
    """
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(
            key in present and holds(present[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(present, list) and len(present) == len(wanted) and all(map(holds, present, wanted))
    return type(present) is type(wanted) and bool(present == wanted)
