"""One writer of statuses, for reconciles and for everybody else.

A status is written by several: a list of conditions has entries of a scheduler, of a backend, of a person
with kubectl. A merge patch replaces lists whole, and it meets whatever has the name by then. So a write says
which version it was made for; if that is not the newest any more, it is made again for the one that is:

- entries of lists that are *shared* (conditions, unless told otherwise) are changed one by one, each found by
  its key, and those of others stay;
- all other fields are written as they were wanted: they have one writer;
- an object of the same name with another UID is not ours to write to.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from quarterdeck.api import GroupVersionKind, Writable
from quarterdeck.api.jsonobject import Json
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import Conflict, NotFound
from quarterdeck.wire.patch import merge_patch

Shared: TypeAlias = Mapping[str, tuple[str, ...]]
"""Lists that others write as well, and the fields that tell their entries apart."""
CONDITIONS: Final[Shared] = {"conditions": ("type",)}
ATTEMPTS: Final = 5
"""How often a status is written that others write at the same time, before ``Conflict`` is raised."""


async def write_status(
    client: Client, obj: Writable, before: Json, after: Json, *, shared: Shared = CONDITIONS
) -> bytes | None:
    """Write the difference between two statuses of an object; gives the answer, ``None`` if there is none.

    ``before`` is what ``obj`` has, or the part of it that ``after`` is about. Raises ``NotFound`` if the
    object is gone or another one has its name.
    """
    patch = merge_patch(before, after)
    if not patch:
        return None
    metadata = obj.metadata
    version = metadata.resource_version
    for attempt in itertools.count(1):
        guard = {"metadata": {"resourceVersion": version}} if version else {}
        try:
            return await client.status.patch_raw(obj, MergePatch({**guard, "status": patch}))
        except Conflict:
            if attempt == ATTEMPTS:
                raise
        kind = GroupVersionKind.parse(obj.api_version, obj.kind)
        found = await client.get(kind, metadata.name, metadata.namespace)
        if found.metadata.uid != metadata.uid:
            raise NotFound(f"{obj.kind} {metadata.name} is another one by now")
        present = found.to_dict().get("status") or {}
        version, patch = found.metadata.resource_version, rebased(before, after, present, shared)
        if not patch:
            return None
    raise AssertionError("the last attempt returns or raises")


def rebased(before: Json, after: Json, present: Json, shared: Shared = CONDITIONS) -> Json:
    """The merge patch that makes the change from ``before`` to ``after`` to the status ``present``."""
    patch: Json = merge_patch(before, after)
    for name, key in shared.items():
        if name in patch:
            wanted = _entries_rebased(
                before.get(name) or (), after.get(name) or (), present.get(name) or (), key
            )
            if wanted == (present.get(name) or []):
                del patch[name]
            else:
                patch[name] = wanted
    return patch


def _entries_rebased(
    before: Sequence[Json], after: Sequence[Json], present: Sequence[Json], key: tuple[str, ...]
) -> list[Json]:
    def by_key(entries: Sequence[Json]) -> dict[tuple[Any, ...], Json]:
        return {tuple(entry.get(field) for field in key): entry for entry in entries}

    known, wanted = by_key(before), by_key(after)
    changed = {name: entry for name, entry in wanted.items() if entry != known.get(name)}
    removed = known.keys() - wanted.keys()
    kept = [changed.pop(name, entry) for name, entry in by_key(present).items() if name not in removed]
    return [*kept, *changed.values()]
