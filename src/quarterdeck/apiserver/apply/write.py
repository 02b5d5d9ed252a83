"""One write seen by the field manager: structured-merge-diff's update and apply.

`Rules` is what does not change from write to write of a kind. `Write` compares, merges, prunes and moves
ownership; it reads objects and entries and returns new ones. The wire form is `manager`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.status import bad_request, plain_error

from . import fieldset, lastapplied
from .compare import Comparison, TypedError, compare, field_set, same_value
from .conflict import Conflicts
from .fieldset import LEAF, FieldSet
from .managed import Identity, Managed, ManagedEntry, cap_updaters
from .merge import merge, remove_items
from .reconcile import reconcile, with_named_fields
from .typed import TypeModel
from .validate import error_text, validate

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


class Rules(NamedTuple):
    """What the field manager knows about a kind; see `FieldManager` for the rest."""

    model_for_version: Callable[[str], TypeModel | None]
    #: per subresource, what leaves of a set only the fields that its writes can change; absent: all
    own_fields: Mapping[str, Callable[[FieldSet], FieldSet]]
    own_version_only: Collection[str]
    convert: Callable[[Json, str], Json]


class Write:
    """One write: the version, the subresource and the time are fixed."""

    def __init__(self, rules: Rules, api_version: str, subresource: str, now: str) -> None:
        model = rules.model_for_version(api_version)
        if model is None:
            raise plain_error(f"no corresponding type for {api_version}")
        self.model = model
        self._rules = rules
        self._version = api_version
        self._subresource = subresource
        self._now = now
        self._own_fields = rules.own_fields.get(subresource)
        # Conversion may be a call to a webhook. The object is kept so that its id stays its own.
        self._conversions: dict[tuple[int, str], tuple[Json, Json]] = {}

    def update(self, live: Json | None, new: Json, managed: Managed, manager: str) -> Managed:
        """The entries after a write that made `new` out of `live`."""
        comparison = self._compare(self.model, self.model.zero if live is None else live, new)
        if managed:
            live = live or self._nothing(new)
            managed = self._without(self._reconciled(managed, live), comparison, live, new)
        own = fieldset.union(comparison.modified, comparison.added)
        own = fieldset.difference(own, _NEVER_OWNED)
        if own:
            identity = Identity(manager, "Update", self._version, self._subresource)
            previous = managed.get(identity)
            if previous is not None:
                own = fieldset.union(previous.fields, own)
            is_known = previous is not None and own == previous.fields
            managed[identity] = ManagedEntry(
                self._version, own if is_known else fieldset.ordered(own), self._now
            )
        return cap_updaters(managed)

    def before_first_apply(self, live: Json) -> Managed:
        """The entry that owns what was there before anyone was tracked."""
        try:
            return self.update(None, live, {}, _BEFORE_FIRST_APPLY)
        except TypedError as error:
            text = error_text(validate(self.model, live, allow_duplicates=True))
            raise plain_error(
                "failed to create manager for existing fields: "
                f"failed to convert new object ({object_text(live)}) to smd typed: {text}"
            ) from error

    def apply(
        self, live: Json, config: Json, managed: Managed, manager: str, force: bool
    ) -> tuple[Json, Managed]:
        """The merged object with stale managedFields, and the entries after the apply."""
        self._check_config(config)
        self._check_live(live)
        try:
            return self._apply(live, config, managed, manager, force)
        except TypedError as error:
            raise plain_error(str(error)) from error

    def _apply(
        self, live: Json, config: Json, managed: Managed, manager: str, force: bool
    ) -> tuple[Json, Managed]:
        identity = Identity(manager, "Apply", "", self._subresource)
        time = managed[identity].time if identity in managed else None
        managed = self._reconciled(managed, live)
        last = managed.get(identity)
        merged = merge(self.model, live, config)
        own = field_set(self.model, config)
        if self._own_fields is not None:
            own = self._own_fields(own)
        managed[identity] = ManagedEntry(self._version, own, time)
        pruned = merged
        if last is not None and (last.api_version != self._version or fieldset.difference(last.fields, own)):
            pruned = self._prune(merged, managed, last)  # something was given up
        others = {each: entry for each, entry in managed.items() if each != identity}
        comparison = self._compare(self.model, live, pruned)
        if not force:
            self._check_conflicts(others, comparison, live, pruned)
        result = self._without(others, comparison, live, pruned)
        has_changed = not same_value(live, pruned)
        own = fieldset.difference(own, _NEVER_OWNED)
        if own:
            result[identity] = ManagedEntry(
                self._version, fieldset.ordered(own), self._now if has_changed else time
            )
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
                f"failed to create typed patch object ({object_text(config)}): {error_text(problems)}"
            )

    def _check_live(self, live: Json) -> None:
        if self.model.drops_null:
            return  # decoded as its type
        problems = validate(self.model, live, allow_duplicates=True)
        if problems:
            raise plain_error(
                f"failed to create typed live object ({object_text(live)}): {error_text(problems)}"
            )

    def _compare(self, model: TypeModel, old: Json, new: Json) -> Comparison:
        try:
            comparison = compare(model, old, new)
        except TypedError as error:
            raise TypedError(f"failed to compare objects: {error}") from error
        return comparison if self._own_fields is None else Comparison(*map(self._own_fields, comparison))

    def _reconciled(self, managed: Managed, live: Json) -> Managed:
        """The entries under today's schema, without those of versions that are gone."""
        result: Managed = {}
        for identity, entry in managed.items():
            model = self._model_of(entry.api_version)
            if model is not None:
                self._at(live, entry.api_version)
                fields = reconcile(model, entry.fields)
                result[identity] = entry if fields is entry.fields else entry._replace(fields=fields)
        return result

    def _model_of(self, api_version: str) -> TypeModel | None:
        return self.model if api_version == self._version else self._rules.model_for_version(api_version)

    def _at(self, obj: Json, api_version: str, doing: str = "") -> Json:
        """An object in another version; TypedError, saying what failed, if it does not fit there.

        It does not where the versions of a custom resource have different fields and no conversion
        takes care of them: upstream fails likewise.
        """
        if obj.get("apiVersion") == api_version:
            return obj
        known = self._conversions.get((id(obj), api_version))
        if known is not None:
            return known[1]
        model = self._model_of(api_version)
        assert model is not None  # entries of unknown versions are gone by now
        converted = self._rules.convert(obj, api_version)
        problems = validate(model, converted, allow_duplicates=True)
        if problems:
            raise TypedError(doing + error_text(problems))
        self._conversions[id(obj), api_version] = obj, converted
        return converted

    def _comparisons(self, comparison: Comparison, old: Json, new: Json) -> Callable[[str], Comparison]:
        known = {self._version: comparison}

        def at(api_version: str) -> Comparison:
            if api_version not in known:
                model = self._model_of(api_version)
                assert model is not None
                before = self._at(old, api_version, "failed to convert old object: ")
                after = self._at(new, api_version, "failed to convert new object: ")
                ignores = self._subresource not in self._rules.own_version_only
                known[api_version] = (self._compare if ignores else compare)(model, before, after)
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

    def _prune(self, merged: Json, managed: Managed, last: ManagedEntry) -> Json:
        """`merged` without what the manager applied last time, not this time, and nobody else owns."""
        version = last.api_version
        model = self._model_of(version)
        assert model is not None
        failed = "failed to prune fields: failed to convert merged object to last applied version: "
        merged = self._at(merged, version, failed)
        last_fields = with_named_fields(model, last.fields)
        pruned = remove_items(model, merged, last_fields)
        pruned = self._add_back_owned(merged, pruned, managed, version)
        failed = "failed to prune fields: failed add back dangling items: "
        failed += "failed to convert pruned object to last applied version: "
        pruned = self._at(pruned, version, failed)
        gone = fieldset.difference(_named_set(model, merged), _named_set(model, pruned))
        pruned = remove_items(model, merged, fieldset.intersection(gone, last_fields))
        return self._at(pruned, self._version, "failed to prune fields: ")

    def _add_back_owned(self, merged: Json, pruned: Json, managed: Managed, first: str) -> Json:
        """`pruned` with everything back that some entry owns, the applied configuration's included."""
        owned: dict[str, FieldSet] = {first: {}}
        for entry in managed.values():
            owned[entry.api_version] = fieldset.union(owned.get(entry.api_version, {}), entry.fields)
        failed = "failed to prune fields: failed add back owned items: failed to convert"
        for version, fields in owned.items():
            model = self._model_of(version)
            assert model is not None
            merged = self._at(merged, version, f"{failed} merged object at version {version}: ")
            pruned = self._at(pruned, version, f"{failed} pruned object at version {version}: ")
            keep = fieldset.union(_named_set(model, pruned), with_named_fields(model, fields))
            gone = fieldset.difference(_named_set(model, merged), keep)
            pruned = remove_items(model, merged, gone)
        return pruned


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


def kind_text(obj: Json) -> str:
    """`apps/v1, Kind=Deployment`, as Go prints a GroupVersionKind."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def object_text(obj: Json) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace, name = (
        text if isinstance(text := metadata.get(key), str) else "" for key in ("namespace", "name")
    )
    return f"{namespace}/{name}; {kind_text(obj)}"
