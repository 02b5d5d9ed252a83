"""The field manager: who owns which field, kept up to date on every write.

`update` runs after POST, PUT and the non-apply patches have produced the new object and before admission
sees it; it writes metadata.managedFields and changes nothing else. `apply` merges an apply
configuration into the live object and returns the result, not yet defaulted. All objects are in the
version of the request; entries of other versions are kept right by converting both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.status import StatusError, bad_request

from . import fieldset, lastapplied
from .compare import TypedError, same_value
from .conflict import Conflicts
from .fieldset import FieldSet
from .managed import Managed, decode, encode, is_reset, read_stored
from .typed import TypeModel
from .write import Rules, Write, kind_text

Convert = Callable[[Json, str], Json]


class FieldManager:
    """The field manager of one kind.

    model_for_version: the type model of an apiVersion; None if it is not one of the kind's versions, in
        which case entries of that version are dropped.
    ignored: per subresource ("" is the main resource) the fields that its writes do not change; they
        and everything below are never owned through it (`resetfields`).
    own_version_only: subresources whose `ignored` leaves entries of other versions alone. Upstream does
        so for the main resource of custom resources: pass `resetfields.CUSTOM_OWN_VERSION_ONLY`.
    convert: an object to an apiVersion, without changing its argument; default: only apiVersion changes.
    kind: what a configuration must state; empty: not checked.
    """

    def __init__(
        self,
        model_for_version: Callable[[str], TypeModel | None],
        *,
        ignored: Mapping[str, FieldSet] | None = None,
        own_version_only: Collection[str] = (),
        convert: Convert | None = None,
        kind: str = "",
    ) -> None:
        own_fields = {each: _without(fields) for each, fields in (ignored or {}).items() if fields}
        self._rules = Rules(model_for_version, own_fields, own_version_only, convert or _convert_by_name)
        self._kind = kind

    def update(
        self,
        live: Json | None,
        new: Json,
        *,
        manager: str,
        api_version: str,
        subresource: str = "",
        now: str,
    ) -> None:
        """Set `new`'s managedFields after a write that is not an apply; `live` is None on create.

        What the client sent in managedFields counts: `[]` and `[{}]` forget all owners, readable entries
        replace the stored ones, anything else is ignored, as it is in a subresource. An object whose
        shape does not fit its type, or that cannot be converted, loses its entries.
        """
        metadata = new.get("metadata")
        if metadata is None:
            metadata = new["metadata"] = {}
        sent = metadata.pop("managedFields", None)
        live_metadata: Json = (live or {}).get("metadata") or {}
        managed = _starting_point(live_metadata.get("managedFields"), None if subresource else sent)
        if not managed and live_metadata.get("uid"):
            return  # not tracked until the first apply
        write = Write(self._rules, api_version, subresource, now)
        try:
            managed = write.update(live, new, managed, manager or "unknown")
        except (TypedError, StatusError):
            return
        if managed:
            metadata["managedFields"] = encode(managed)

    def apply(
        self,
        live: Json | None,
        config: Json,
        *,
        manager: str,
        api_version: str,
        force: bool = False,
        subresource: str = "",
        now: str,
    ) -> Json:
        """`live` (None: it does not exist yet) with `config` applied, as a fresh object.

        Raises StatusError: 400 for another kind or for managedFields in `config`, 500 without a reason
        for a `config` that does not fit the type, 409 for conflicts unless `force`.
        """
        kind = config.get("kind") or ""
        if config.get("apiVersion") != api_version or (self._kind and kind != self._kind):
            raise bad_request(f"invalid object type: {kind_text(config)}")
        stored = None if live is None else (live.get("metadata") or {}).get("managedFields")
        write = Write(self._rules, api_version, subresource, now)
        if live is None:
            live = {"apiVersion": api_version, "kind": kind, **write.model.zero}
        managed = read_stored(stored)
        if not managed:
            managed = write.before_first_apply(live)
        try:
            try:
                result, managed = write.apply(live, config, managed, manager, force)
            except Conflicts as conflicts:
                if manager != lastapplied.MANAGER:
                    raise
                write.allow_own(conflicts, live)
                result, managed = write.apply(live, config, managed, manager, True)
        except Conflicts as conflicts:
            raise conflicts.to_status() from None
        if manager == lastapplied.MANAGER:
            lastapplied.refresh(result, config)
        metadata = result.get("metadata")
        if not isinstance(metadata, dict):
            metadata = result["metadata"] = {}
        metadata.pop("managedFields", None)
        if managed:
            metadata["managedFields"] = encode(managed)
        return result


def restore_times(live: Json, new: Json) -> bool:
    """Whether `new` differs from `live` in the times of its entries at most; if so, it gets live's back.

    To be asked last, when `new` is what would be stored: a True means there is nothing to store.
    """
    ours, theirs = live["metadata"].get("managedFields"), new["metadata"].get("managedFields")
    if ours != theirs:
        if not ours or not theirs or len(ours) != len(theirs):
            return False
        for before, after in zip(ours, theirs, strict=True):
            if {**before, "time": None} != {**after, "time": None}:
                return False
    if not same_value({**live, "metadata": None}, {**new, "metadata": None}):
        return False
    set_aside = {"managedFields": None, "resourceVersion": None}
    if not same_value({**live["metadata"], **set_aside}, {**new["metadata"], **set_aside}):
        return False
    if ours is not None:
        new["metadata"]["managedFields"] = ours
    return True


def _starting_point(stored: Any, sent: Any) -> Managed:
    """The entries an update starts from: the client's if it sent readable ones, else the stored ones."""
    if sent is None or sent == stored:
        return read_stored(stored) if stored else {}
    if is_reset(sent):
        return {}
    try:
        managed = decode(sent)
    except ValueError:
        managed = {}
    return managed or read_stored(stored)


def _without(ignored: FieldSet) -> Callable[[FieldSet], FieldSet]:
    return lambda fields: fieldset.recursive_difference(fields, ignored)


def _convert_by_name(obj: Json, api_version: str) -> Json:
    return {**obj, "apiVersion": api_version}
