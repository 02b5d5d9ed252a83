"""metadata.managedFields: entries read from and written to the wire.

An entry says which fields one manager owns. Its identity is (manager, operation, apiVersion,
subresource), without the apiVersion for Apply: an applier has one entry however many versions it used.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire import gostyle

from . import fieldset
from .fieldset import FieldSet

#: more Update entries than this and the oldest are merged into one per version
MAX_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"


class Identity(NamedTuple):
    manager: str
    operation: str
    #: empty for Apply
    api_version: str
    subresource: str

    def text(self) -> str:
        """The identity as upstream spells it, which decides the order of managers in some texts."""
        parts = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        shown = (f'"{name}":{gostyle.json_text(value)}' for name, value in parts.items() if value)
        return "{" + ",".join(shown) + "}"


class ManagedEntry(NamedTuple):
    #: the version whose fields the set names
    api_version: str
    fields: FieldSet
    #: RFC 3339 in UTC, or None
    time: str | None


Managed: TypeAlias = dict[Identity, ManagedEntry]


def is_reset(sent: Any) -> bool:
    """Whether a client asks to forget all entries: `[]` or `[{}]`."""
    if not isinstance(sent, list):
        return False
    return not sent or (len(sent) == 1 and isinstance(sent[0], dict) and not any(sent[0].values()))


def read_stored(stored: Any) -> Managed:
    """Entries that this server wrote."""
    managed: Managed = {}
    for raw in stored or ():
        operation, version = raw["operation"], raw["apiVersion"]
        qualifier = version if operation == "Update" else ""
        identity = Identity(raw.get("manager", ""), operation, qualifier, raw.get("subresource", ""))
        managed[identity] = ManagedEntry(version, raw.get("fieldsV1") or {}, raw.get("time"))
    return managed


def decode(sent: Any) -> Managed:
    """Entries that a client sent; ValueError if one cannot be read."""
    managed: Managed = {}
    if not isinstance(sent, list):
        return managed
    for index, raw in enumerate(sent):
        if not isinstance(raw, dict) or raw.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        operation, version, manager = raw["operation"], raw.get("apiVersion") or "", raw.get("manager") or ""
        subresource = raw.get("subresource") or ""
        if not version:
            raise ValueError("apiVersion must not be empty")
        if raw.get("fieldsType") != "FieldsV1":
            known = raw.get("fieldsType")
            problem = f"invalid fieldsType {gostyle.quote(str(known))}" if known else "missing fieldsType"
            raise ValueError(f"{problem} in managed fields entry {index}")
        if not all(isinstance(text, str) for text in (version, manager, subresource)):
            raise ValueError(f"error decoding manager from managed fields entry {index}")
        identity = Identity(manager, operation, version if operation == "Update" else "", subresource)
        managed[identity] = ManagedEntry(
            version, fieldset.decode(raw.get("fieldsV1")), _time(raw.get("time"))
        )
    return managed


def encode(managed: Managed) -> list[Json]:
    """The entries for the wire, in upstream's order."""
    items = managed.items() if len(managed) < 2 else sorted(managed.items(), key=_order)
    return [entry_json(identity, entry) for identity, entry in items]


def entry_json(identity: Identity, entry: ManagedEntry) -> Json:
    out: Json = {"manager": identity.manager} if identity.manager else {}
    out["operation"] = identity.operation
    out["apiVersion"] = entry.api_version
    if entry.time is not None:
        out["time"] = entry.time
    out["fieldsType"] = "FieldsV1"
    out["fieldsV1"] = entry.fields
    if identity.subresource:
        out["subresource"] = identity.subresource
    return out


def cap_updaters(managed: Managed) -> Managed:
    """At most MAX_UPDATERS Update entries: the oldest are merged into `ancient-changes`, one per version."""
    if len(managed) <= MAX_UPDATERS:
        return managed
    updaters = [identity for identity in managed if identity.operation == "Update"]
    if len(updaters) <= MAX_UPDATERS:
        return managed
    managed = dict(managed)
    updaters.sort(key=lambda identity: (managed[identity].time or "", identity.text()))
    count = len(updaters)
    first_of: dict[str, Identity] = {}
    for identity in updaters:
        if count <= MAX_UPDATERS:
            break
        entry = managed[identity]
        first = first_of.setdefault(entry.api_version, identity)
        if first is identity:
            continue
        bucket = Identity(_ANCIENT, "Update", entry.api_version, "")
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        fields = fieldset.ordered(fieldset.union(entry.fields, managed[bucket].fields))
        managed.pop(identity, None)
        managed[bucket] = ManagedEntry(entry.api_version, fields, entry.time)
        count -= 1
    return managed


def _order(item: tuple[Identity, ManagedEntry]) -> tuple[str, str, str, str, str]:
    identity, entry = item
    return identity.operation, entry.time or "", identity.manager, entry.api_version, identity.subresource


def _time(text: Any) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError("time must be a string")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time without a zone: {text}")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
