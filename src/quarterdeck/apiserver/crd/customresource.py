"""A custom resource version, built from its CRD.

Stored text ends with the apiVersion it was written in, so that one comparison tells whether it
can be served as it is. An entry is served untouched when it was written under the schema in
force; otherwise it is pruned and defaulted as upstream does when reading from storage.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply import FieldManager, TypeModel, custom_model, resetfields
from quarterdeck.apiserver.document.jsonpath import JsonPath
from quarterdeck.apiserver.resource.resource import Resource, Subresource, Undecodable
from quarterdeck.apiserver.resource.resourcetable import version_priority
from quarterdeck.apiserver.resource.strategy import Strategy, WriteContext
from quarterdeck.apiserver.schema.objectmeta import DecodeError
from quarterdeck.apiserver.schema.resource import ResourceSchema
from quarterdeck.apiserver.storage import Bucket, Entry, encode_value
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError
from quarterdeck.wire.jsonvalue import same

from .conversion import Converter
from .customprinter import CustomPrinter

_Result = TypeVar("_Result")
_encode = msgspec.json.Encoder().encode
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CustomStrategy(Strategy):
    """The rules of a custom resource version: its schema."""

    allows_unconditional_update = False
    allows_bare_finalizers = True

    def __init__(self, schema: ResourceSchema, version: Json) -> None:
        self._schema = schema
        subresources = version.get("subresources") or {}
        self.has_status = "status" in subresources
        status_schema = (schema.raw.get("properties") or {}).get("status") or {}
        self._status_has_default = self.has_status and "default" in status_schema
        paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
        self.selectable_fields = {path.removeprefix("."): _selector(path) for path in paths}

    def default(self, obj: Json) -> None:
        self._schema.fill(obj)

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        if self.has_status:
            obj.pop("status", None)
            if self._status_has_default:
                self._schema.fill(obj)

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        if self._status_has_default and "status" not in obj:
            self._schema.fill(obj)

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return self._schema.validate_create(obj)

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self._schema.validate_update(obj, old, ctx.warn)

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self._schema.validate_status_update(obj, old, ctx.warn)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        finalizers = obj["metadata"].get("finalizers")
        if not finalizers:
            return []
        known = (
            (*(old["metadata"].get("finalizers") or ()), *_STANDARD_FINALIZERS)
            if old
            else _STANDARD_FINALIZERS
        )
        return [
            f"metadata.finalizers: {gostyle.quote(name)}: prefer a domain-qualified finalizer name to avoid "
            "accidental conflicts with other finalizer writers"
            for name in finalizers
            if "/" not in name and name not in known
        ]

    def generation_changed(self, obj: Json, old: Json) -> bool:
        ignored = ("metadata", "apiVersion", "kind", "status" if self.has_status else "metadata")
        return any(
            not _is_same(obj.get(key), old.get(key)) for key in obj.keys() | old.keys() if key not in ignored
        )


def _is_same(new: Any, old: Any) -> bool:
    """Without a declared type 1 may become true, which Python takes for equal."""
    return new is old or (new == old and same(new, old))


def _selector(path: str) -> Any:
    compiled = JsonPath(path)

    def read(obj: Json) -> str:
        value = compiled.first(obj)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


class CustomResource(Resource):
    """One served version of a CRD."""

    is_custom = True

    def __init__(self, crd: Json, version: Json, bucket: Bucket, family: Family) -> None:
        spec = crd["spec"]
        names = crd["status"]["acceptedNames"] if crd.get("status") else spec["names"]
        if not names.get("plural"):
            names = spec["names"]
        self.version_spec = version
        subresources = version.get("subresources") or {}
        self.schema = ResourceSchema(
            (version.get("schema") or {}).get("openAPIV3Schema"), scale=subresources.get("scale")
        )
        self.family = family
        served: dict[str, Subresource] = {}
        if "status" in subresources:
            served["status"] = Subresource("status", names["kind"], ("get", "patch", "update"))
        if "scale" in subresources:
            served["scale"] = Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1")
        super().__init__(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            singular=names.get("singular", ""),
            kind=names["kind"],
            list_kind=names.get("listKind", ""),
            namespaced=spec["scope"] == "Namespaced",
            verbs=VERBS,
            short_names=names.get("shortNames") or (),
            categories=names.get("categories") or (),
            subresources=served,
            storage_version_hash=_storage_hash(spec, names["kind"]),
            bucket=bucket,
            strategy=CustomStrategy(self.schema, version),
        )
        self.prefix = _encode({"kind": self.kind})[:-1] + b","
        self.item_prefix = self.prefix
        self._tail = b',"apiVersion":' + _encode(self.api_version) + b"}"
        self.deprecation = _deprecation(spec, version, names["kind"])

    @cached_property
    def printer(self) -> CustomPrinter:
        return CustomPrinter(self.version_spec.get("additionalPrinterColumns"))

    @property
    def model(self) -> TypeModel:
        return custom_model(self.schema.raw)

    def wrong_kind(self, kind: str, obj: Json) -> status.StatusError:
        meta = obj.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else ""
        name = name if isinstance(name, str) else ""
        return status.invalid(
            kind, self.group, name, [fielderror.invalid("kind", kind, f"must be {self.kind}")]
        )

    def check_create_allowed(self, name: str) -> None:
        self.check_current()
        if self.family.is_terminating:
            raise status.forbidden(
                self.plural,
                self.group,
                name,
                "create not allowed while custom resource definition is terminating",
            )

    def decode(self, parsed: Any, *, applied: bool = False) -> tuple[Json, list[str]]:
        obj = dict(parsed)
        try:
            return obj, self.schema.decode(obj, keep_nulls=applied)
        except DecodeError as error:
            raise self._not_decoded(error) from None

    def is_settled(self, entry: Entry) -> bool:
        return self.raw_body(entry) is not None

    def is_up_to_date(self, entry: Entry) -> bool:
        version = self.family.storage_version
        return entry.mark is self.family.schema_of(version) and self.stored_version(entry) == version

    def decode_changed(self, parsed: Json, settled: Json) -> tuple[Json, list[str]]:
        obj = dict(parsed)
        try:
            return obj, self.schema.decode_changed(obj, settled)
        except DecodeError as error:
            raise self._not_decoded(error) from None

    def _not_decoded(self, error: DecodeError) -> Undecodable:
        return Undecodable(self.kind, self.version, str(error))

    def raw_body(self, entry: Entry) -> bytes | None:
        body = entry.body
        if entry.mark is self.schema and body.endswith(self._tail):
            return body
        return None

    def stored_version(self, entry: Entry) -> str:
        """The apiVersion an entry was written in."""
        start = entry.body.rindex(b',"apiVersion":"') + len(b',"apiVersion":"')
        return entry.body[start:-2].decode()

    @property
    def is_superseded(self) -> bool:
        return self.family.is_superseded

    @property
    def uses_webhook(self) -> bool:
        return self.family.converter.uses_webhook

    def needs_webhook(self, entry: Entry) -> bool:
        return self.uses_webhook and self.stored_version(entry) != self.api_version

    def read(self, entry: Entry) -> Json:
        """Only for entries that need no webhook."""
        stored = self._from_storage(entry)
        if stored["apiVersion"] != self.api_version:
            stored = self.family.converter.relabel(stored, self.api_version)
            self.schema.prune(stored)
        return stored

    async def read_many(self, entries: Sequence[Entry]) -> list[Json]:
        objects = [self._from_storage(entry) for entry in entries]
        foreign = [index for index, obj in enumerate(objects) if obj["apiVersion"] != self.api_version]
        if foreign:
            converted = await self.family.converter.convert(
                [objects[index] for index in foreign], self.api_version
            )
            for index, obj in zip(foreign, converted, strict=True):
                self.schema.prune(obj)
                objects[index] = obj
        return objects

    def _from_storage(self, entry: Entry) -> Json:
        """The stored document, pruned and defaulted with the schema of the version it is stored in."""
        stored: Json = {"apiVersion": "", "kind": self.kind, **entry.document()}
        if entry.mark is not None and entry.mark is self.family.schema_of(stored["apiVersion"]):
            return stored
        schema = self.family.schema_of(stored["apiVersion"])
        if schema is not None:
            before = _encode(stored)
            schema.prune(stored)
            schema.default(stored)
            if _encode(stored) == before:
                entry.mark = schema
        return stored

    async def convert_from(self, obj: Json, source: Resource) -> Json:
        [converted] = await self.family.converter.convert([obj], self.api_version)
        return converted

    async def as_if_stored(self, obj: Json) -> Json:
        if self.family.storage_version == self.api_version:
            return obj
        stored = await self._to_storage(obj)
        [shown] = await self.family.converter.convert([stored], self.api_version)
        self.schema.prune(shown)
        return shown

    async def _to_storage(self, obj: Json) -> Json:
        """The object in the storage version, which is another one."""
        [obj] = await self.family.converter.convert([obj], self.family.storage_version)
        storage = self.family.schema_of(self.family.storage_version)
        if storage is not None:
            storage.prune(obj)
        return obj

    async def to_value(self, obj: Json) -> bytes:
        if self.family.storage_version != self.api_version:
            obj = await self._to_storage(obj)
        return encode_value(obj, obj["apiVersion"])

    @property
    def written_mark(self) -> object:
        return self.schema if self.family.storage_version == self.api_version else None

    @cached_property
    def field_manager(self) -> FieldManager:
        return _field_manager(self)

    async def track(self, work: Callable[[FieldManager], _Result]) -> _Result:
        if not self.uses_webhook:
            return work(self.field_manager)
        converter = self.family.converter
        known: dict[tuple[bytes, str], Json] = {}

        def convert(obj: Json, api_version: str) -> Json:
            if obj["apiVersion"] == api_version:
                return obj
            found = known.get((_encode(obj), api_version))
            if found is None:
                raise _NotConverted(obj, api_version)
            return found

        manager = _field_manager(self, convert)
        while True:  # the work is the same each time, so every round knows one conversion more
            try:
                return work(manager)
            except _NotConverted as missing:
                [converted] = await converter.convert([missing.obj], missing.api_version)
                known[_encode(missing.obj), missing.api_version] = converted


def _field_manager(
    resource: CustomResource, convert: Callable[[Json, str], Json] | None = None
) -> FieldManager:
    """`convert`: an object to an apiVersion; by default only its apiVersion changes."""
    family = resource.family
    models: dict[str, TypeModel] = {}

    def model_for(api_version: str) -> TypeModel | None:
        if api_version not in models:
            schema = family.schema_of(api_version)
            if schema is None:
                return None
            models[api_version] = custom_model(schema.raw)
        return models[api_version]

    return FieldManager(
        model_for,
        ignored=resetfields.custom_resource(has_status=resource.strategy.has_status),
        own_version_only=resetfields.CUSTOM_OWN_VERSION_ONLY,
        convert=convert,
        kind=resource.kind,
    )


class _NotConverted(QuarterdeckError):
    """The field manager needs an object in another version, which only a webhook can give."""

    def __init__(self, obj: Json, api_version: str) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version


class Family:
    """The versions of one CRD as one state of it defines them: which is stored, how they convert."""

    def __init__(self, crd: Json, converter: Converter) -> None:
        spec = crd["spec"]
        self.group = spec["group"]
        #: equal for states of a definition that define the same
        self.identity = identity(crd)
        #: the definition is being deleted
        self.is_terminating = False
        #: it says something else by now, or is gone: requests under way may still refer to this state
        self.is_superseded = False
        self.converter = converter
        self.storage_version = ""
        self._schemas: dict[str, ResourceSchema] = {}
        self.versions: dict[str, CustomResource] = {}
        self.preserve_unknown = bool(spec.get("preserveUnknownFields"))

    @classmethod
    def build(cls, crd: Json, bucket: Bucket, converter: Converter) -> Family:
        family = cls(crd, converter)
        for version in crd["spec"]["versions"]:
            resource = CustomResource(crd, version, bucket, family)
            family._schemas[resource.api_version] = resource.schema
            if version.get("storage"):
                family.storage_version = resource.api_version
            family.versions[version["name"]] = resource
        return family

    def schema_of(self, api_version: str) -> ResourceSchema | None:
        return self._schemas.get(api_version)

    def served(self) -> list[CustomResource]:
        return [resource for resource in self.versions.values() if resource.version_spec.get("served")]


def identity(crd: Json) -> tuple[str, bytes]:
    """What a definition is and says, without what only describes it: a change ends what it was opened for."""
    names = (crd.get("status") or {}).get("acceptedNames")
    return crd["metadata"]["uid"], hashlib.sha256(_encode([crd["spec"], names])).digest()


def _deprecation(spec: Json, version: Mapping[str, Any], kind: str) -> str:
    """The warning of a deprecated version: its own text, or the version to use instead."""
    if not version.get("deprecated"):
        return ""
    given: str | None = version.get("deprecationWarning")
    if given is not None:
        return given
    text = f"{spec['group']}/{version['name']} {kind} is deprecated"
    better = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("deprecated")]
    better = [name for name in better if version_priority(name) < version_priority(version["name"])]
    if better:
        text += f"; use {spec['group']}/{min(better, key=version_priority)} {kind}"
    return text


def _storage_hash(spec: Json, kind: str) -> str:
    """Opaque to clients: it changes with the storage version."""
    storage = next((version["name"] for version in spec["versions"] if version.get("storage")), "")
    text = f"{spec['group']}/{storage}/{kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()
