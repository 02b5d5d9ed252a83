"""The field manager: who owns which field, kept up to date on every write.

`update` runs after POST, PUT and the non-apply patches have produced the new object and before admission
sees it; it writes metadata.managedFields and changes nothing else. `apply` merges an apply
configuration into the live object and returns the result, not yet defaulted. All objects are in the
version of the request; entries of other versions are kept right by converting both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.apiserver.status import bad_request, plain_error

from . import fieldset, lastapplied
from .compare import Comparison, TypedError, compare, field_set, same_value
from .conflict import Conflicts
from .fieldset import LEAF, FieldSet
from .managed import Entry, Identity, Managed, cap_updaters, decode, encode, is_reset, read_stored
from .merge import merge, remove_items
from .reconcile import reconcile, with_named_fields
from .typed import TypeModel
from .validate import error_text, validate

__all__ = ["FieldManager", "restore_times"]

Json = dict[str, Any]
Convert = Callable[[Json, str], Json]

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_NEVER_OWNED: Final[FieldSet] = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {
        ".": LEAF,
        "f:name": LEAF,
        "f:namespace": LEAF,
        "f:creationTimestamp": LEAF,
        "f:selfLink": LEAF,
        "f:uid": LEAF,
        "f:clusterName": LEAF,
        "f:generation": LEAF,
        "f:managedFields": LEAF,
        "f:resourceVersion": LEAF,
    },
}
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class FieldManager:
    """The field manager of one kind.

    model_for_version: the type model of an apiVersion; None if it is not one of the kind's versions, in
        which case entries of that version are dropped.
    ignored: per subresource ("" is the main resource) the fields that its writes do not change; they
        and everything below are never owned through it (`resetfields`).
    only: per subresource the fields beyond which its writes change nothing, instead of `ignored`.
    convert: an object to an apiVersion, without changing its argument; default: only apiVersion changes.
    kind: what a configuration must state; empty: not checked.
    """

    def __init__(
        self,
        model_for_version: Callable[[str], TypeModel | None],
        *,
        ignored: Mapping[str, FieldSet] | None = None,
        only: Mapping[str, FieldSet] | None = None,
        convert: Convert | None = None,
        kind: str = "",
    ) -> None:
        self._model_for_version = model_for_version
        self._ignored = dict(ignored or {})
        self._only = dict(only or {})
        self._convert = convert or _convert_by_name
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
        shape does not fit its type loses its entries.
        """
        metadata = new.get("metadata")
        if metadata is None:
            metadata = new["metadata"] = {}
        sent = metadata.pop("managedFields", None)
        stored = None if live is None else live["metadata"].get("managedFields")
        managed = _starting_point(stored, None if subresource else sent)
        exists = live is not None and bool(live["metadata"].get("uid"))
        if not managed and exists:
            return  # not tracked until the first apply
        write = _Write(self, api_version, subresource, now)
        try:
            managed = write.update(live, new, managed, manager or "unknown")
        except TypedError:
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
            raise bad_request(f"invalid object type: {_kind_text(config)}")
        stored = None if live is None else (live.get("metadata") or {}).get("managedFields")
        write = _Write(self, api_version, subresource, now)
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
        metadata = result.setdefault("metadata", {})
        metadata.pop("managedFields", None)
        if managed:
            metadata["managedFields"] = encode(managed)
        return result

    def model(self, api_version: str) -> TypeModel | None:
        return self._model_for_version(api_version)

    def own_fields(self, subresource: str) -> Callable[[FieldSet], FieldSet] | None:
        """A function that leaves of a set what writes to a subresource can change; None: everything."""
        only = self._only.get(subresource)
        if only:
            return lambda fields: fieldset.restrict(fields, only)
        ignored = self._ignored.get(subresource)
        return (lambda fields: fieldset.recursive_difference(fields, ignored)) if ignored else None

    def converted(self, obj: Json, api_version: str) -> Json:
        return obj if obj.get("apiVersion") == api_version else self._convert(obj, api_version)


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
    if not same_value(
        {**live["metadata"], "managedFields": None}, {**new["metadata"], "managedFields": None}
    ):
        return False
    if ours is not None:
        new["metadata"]["managedFields"] = ours
    return True


class _Write:
    """One write: the version, the subresource and the time are fixed."""

    def __init__(self, fields: FieldManager, api_version: str, subresource: str, now: str) -> None:
        model = fields.model(api_version)
        if model is None:
            raise plain_error(f"no corresponding type for {api_version}")
        self.model = model
        self._fields = fields
        self._version = api_version
        self._subresource = subresource
        self._now = now
        self._own_fields = fields.own_fields(subresource)

    def update(self, live: Json | None, new: Json, managed: Managed, manager: str) -> Managed:
        """The entries after a write that made `new` out of `live`."""
        comparison = self._compare(self.model, self.model.zero if live is None else live, new)
        if managed:
            managed = self._reconciled(managed)
            managed = self._without(managed, comparison, live or self._nothing(new), new)
        own = fieldset.union(comparison.modified, comparison.added)
        own = fieldset.difference(own, _NEVER_OWNED)
        if not own:
            return managed
        identity = Identity(manager, "Update", self._version, self._subresource)
        previous = managed.get(identity)
        if previous is not None:
            own = fieldset.union(previous.fields, own)
        managed[identity] = Entry(self._version, own, self._now)
        return cap_updaters(managed)

    def before_first_apply(self, live: Json) -> Managed:
        """The entry that owns what was there before anyone was tracked."""
        try:
            return self.update(None, live, {}, _BEFORE_FIRST_APPLY)
        except TypedError as error:
            text = error_text(validate(self.model, live, allow_duplicates=True))
            raise plain_error(
                "failed to create manager for existing fields: "
                f"failed to convert new object ({_object_text(live)}) to smd typed: {text}"
            ) from error

    def apply(
        self, live: Json, config: Json, managed: Managed, manager: str, force: bool
    ) -> tuple[Json, Managed]:
        """The merged object without managedFields, and the entries after the apply."""
        self._check_config(config)
        self._check_live(live)
        identity = Identity(manager, "Apply", "", self._subresource)
        time = managed[identity].time if identity in managed else None
        managed = self._reconciled(managed)
        last = managed.get(identity)
        merged = merge(self.model, live, config)
        own = field_set(self.model, config)
        if self._own_fields is not None:
            own = self._own_fields(own)
        managed[identity] = Entry(self._version, own, time)
        pruned = merged
        if last is not None and (last.api_version != self._version or fieldset.difference(last.fields, own)):
            pruned = self._prune(merged, managed, last)  # something was given up
        others = {each: entry for each, entry in managed.items() if each != identity}
        try:
            comparison = self._compare(self.model, live, pruned)
        except TypedError as error:
            raise plain_error(f"failed to compare objects: {error}") from error
        if not force:
            self._check_conflicts(others, comparison, live, pruned)
        result = self._without(others, comparison, live, pruned)
        has_changed = not same_value(live, pruned)
        own = fieldset.difference(own, _NEVER_OWNED)
        if own:
            result[identity] = Entry(self._version, own, self._now if has_changed else time)
        if not has_changed:
            pruned = live
        return _settle(_decode(_encode(pruned)), merged, self.model.drops_null), result

    def allow_own(self, conflicts: Conflicts, live: Json) -> None:
        """Raise what remains of kubectl's conflicts beyond its own client-side work."""
        allowed = lastapplied.owned_fields(self.model, live, self._version)
        if allowed is None:
            raise conflicts
        rest = {each: fieldset.difference(fields, allowed) for each, fields in conflicts.sets.items()}
        rest = {each: fields for each, fields in rest.items() if fields}
        if rest:
            raise Conflicts(rest)

    def _nothing(self, new: Json) -> Json:
        return {"apiVersion": self._version, "kind": new.get("kind", ""), **self.model.zero}

    def _check_config(self, config: Json) -> None:
        metadata = config.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
            raise bad_request("metadata.managedFields must be nil")
        problems = validate(self.model, config)
        if problems:
            raise plain_error(
                f"failed to create typed patch object ({_object_text(config)}): {error_text(problems)}"
            )

    def _check_live(self, live: Json) -> None:
        if self.model.drops_null:
            return  # decoded as its type
        problems = validate(self.model, live, allow_duplicates=True)
        if problems:
            raise plain_error(
                f"failed to create typed live object ({_object_text(live)}): {error_text(problems)}"
            )

    def _compare(self, model: TypeModel, old: Json, new: Json) -> Comparison:
        comparison = compare(model, old, new)
        return comparison if self._own_fields is None else Comparison(*map(self._own_fields, comparison))

    def _reconciled(self, managed: Managed) -> Managed:
        """The entries under today's schema, without those of versions that are gone."""
        result: Managed = {}
        for identity, entry in managed.items():
            model = self._model_of(entry.api_version)
            if model is not None:
                fields = reconcile(model, entry.fields)
                result[identity] = entry if fields is entry.fields else entry._replace(fields=fields)
        return result

    def _model_of(self, api_version: str) -> TypeModel | None:
        return self.model if api_version == self._version else self._fields.model(api_version)

    def _comparisons(self, comparison: Comparison, old: Json, new: Json) -> Callable[[str], Comparison]:
        known = {self._version: comparison}

        def at(api_version: str) -> Comparison:
            if api_version not in known:
                model = self._model_of(api_version)
                assert model is not None
                before = self._fields.converted(old, api_version)
                known[api_version] = self._compare(model, before, self._fields.converted(new, api_version))
            return known[api_version]

        return at

    def _without(self, managed: Managed, comparison: Comparison, old: Json, new: Json) -> Managed:
        """The entries without what has changed; the empty ones are gone."""
        at = self._comparisons(comparison, old, new)
        result: Managed = {}
        for identity, entry in managed.items():
            fields = entry.fields
            for changed in at(entry.api_version):
                fields = fieldset.difference(fields, changed)
            if fields:
                result[identity] = entry if fields is entry.fields else entry._replace(fields=fields)
        return result

    def _check_conflicts(self, others: Managed, comparison: Comparison, old: Json, new: Json) -> None:
        at = self._comparisons(comparison, old, new)
        sets = {}
        for identity, entry in others.items():
            theirs = at(entry.api_version)
            fields = fieldset.intersection(entry.fields, fieldset.union(theirs.modified, theirs.added))
            if fields:
                sets[identity] = fields
        if sets:
            raise Conflicts(sets)

    def _prune(self, merged: Json, managed: Managed, last: Entry) -> Json:
        """`merged` without what the manager applied last time, not this time, and nobody else owns."""
        model = self._model_of(last.api_version)
        assert model is not None  # reconciling dropped the others
        merged = self._fields.converted(merged, last.api_version)
        last_fields = with_named_fields(model, last.fields)
        pruned = remove_items(model, merged, last_fields)
        pruned = self._add_back_owned(merged, pruned, managed, last.api_version)
        pruned = self._fields.converted(pruned, last.api_version)
        gone = fieldset.difference(_named_set(model, merged), _named_set(model, pruned))
        pruned = remove_items(model, merged, fieldset.intersection(gone, last_fields))
        return self._fields.converted(pruned, self._version)

    def _add_back_owned(self, merged: Json, pruned: Json, managed: Managed, first: str) -> Json:
        """`pruned` with everything back that some entry owns, the applied configuration's included."""
        owned: dict[str, FieldSet] = {first: {}}
        for entry in managed.values():
            owned[entry.api_version] = fieldset.union(owned.get(entry.api_version, {}), entry.fields)
        for api_version, fields in owned.items():
            model = self._model_of(api_version)
            assert model is not None
            merged = self._fields.converted(merged, api_version)
            pruned = self._fields.converted(pruned, api_version)
            keep = fieldset.union(_named_set(model, pruned), with_named_fields(model, fields))
            gone = fieldset.difference(_named_set(model, merged), keep)
            pruned = remove_items(model, merged, gone)
        return pruned


def _starting_point(stored: Any, sent: Any) -> Managed:
    """The entries an update starts from: the client's if it sent readable ones, else the stored ones."""
    if sent is None or sent == stored:
        return read_stored(stored)
    if is_reset(sent):
        return {}
    try:
        managed = decode(sent)
    except ValueError:
        managed = {}
    return managed or read_stored(stored)


def _named_set(model: TypeModel, obj: Json) -> FieldSet:
    return with_named_fields(model, field_set(model, obj))


def _settle(result: Any, merged: Any, drops_null: bool) -> Any:
    """Values that lost all their parts: upstream leaves null, which its own schema then refuses.

    In the built-in types null is absent; elsewhere the empty container stays.
    """
    if isinstance(result, dict) and isinstance(merged, dict):
        for name, item in list(result.items()):
            was = merged.get(name)
            if item is None and isinstance(was, dict | list) and was:
                if drops_null:
                    del result[name]
                else:
                    result[name] = {} if isinstance(was, dict) else []
            else:
                _settle(item, was, drops_null)
    return result


def _convert_by_name(obj: Json, api_version: str) -> Json:
    return {**obj, "apiVersion": api_version}


def _kind_text(obj: Json) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _object_text(obj: Json) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {_kind_text(obj)}"
