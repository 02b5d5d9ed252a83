"""A served resource: one plural in one version of one group.

`Resource` is what the generic pipeline needs to know to read and write objects of any kind. There are two
sorts: `builtin.builtinresource`, whose shape is in the type table, and `crd.customresource`. Versions of one
resource share a bucket and a storage version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply import FieldManager, TypeModel
from quarterdeck.apiserver.apply.configuration import merge_configuration
from quarterdeck.apiserver.document import decoding, protobuf
from quarterdeck.apiserver.document.typetable import struct_for
from quarterdeck.apiserver.storage import Bucket, Entry
from quarterdeck.errors import QuarterdeckError

from .printer import Printer
from .retiredversion import is_retired
from .strategy import Strategy

_Result = TypeVar("_Result")
_encode = msgspec.json.Encoder().encode


class Subresource(msgspec.Struct, frozen=True):
    """A discovery entry `<plural>/<name>`; group and version are given where they differ."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Undecodable(status.StatusError):
    """400 for a document that is no object of its kind, with what is wrong as `problem`.

    `converted` says the same in the words of Go's conversion from unstructured values.
    """

    def __init__(self, kind: str, version: str, problem: str, converted: str = "") -> None:
        message = f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}'
        super().__init__(400, message, reason="BadRequest")
        self.problem = problem
        self.converted = converted or problem


class Superseded(QuarterdeckError):
    """A resource is not served any more, or is defined in another way by now."""


class Resource(ABC):
    """One served resource version."""

    is_custom = False

    def __init__(
        self,
        *,
        group: str,
        version: str,
        plural: str,
        singular: str,
        kind: str,
        namespaced: bool,
        verbs: Sequence[str],
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        subresources: Mapping[str, Subresource] | None = None,
        list_kind: str = "",
        storage_version_hash: str = "",
        deprecation: str = "",
        bucket: Bucket,
        strategy: Strategy,
    ) -> None:
        self.group = group
        self.version = version
        self.api_version = f"{group}/{version}" if group else version
        self.plural = plural
        self.singular = singular
        self.kind = kind
        self.list_kind = list_kind or f"{kind}List"
        self.namespaced = namespaced
        self.verbs = tuple(verbs)
        self.short_names = tuple(short_names)
        self.categories = tuple(categories)
        self.subresources = dict(subresources or {})
        self.storage_version_hash = storage_version_hash
        #: a warning for every request, if the version is deprecated
        self.deprecation = deprecation
        self.bucket = bucket
        self.strategy = strategy
        self.prefix = _encode({"kind": kind, "apiVersion": self.api_version})[:-1] + b","
        #: what precedes an item of a list
        self.item_prefix = self.prefix

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.plural}.{self.api_version}>"

    @property
    def qualified(self) -> str:
        return status.qualified(self.plural, self.group)

    @property
    def gvk_text(self) -> str:
        """`apps/v1, Kind=Deployment`, as Go prints a GroupVersionKind."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @property
    def kind_group(self) -> str:
        """The group of the kind in validation errors: there is one Event, whatever group serves it."""
        return "" if self.group == "events.k8s.io" else self.group

    @property
    def is_superseded(self) -> bool:
        """Whether its definition says something else by now, or is gone."""
        return False

    def check_current(self) -> None:
        """Raises Superseded: by what it knows, fields of newer objects would be lost."""
        if self.is_superseded:
            raise Superseded(f"{self.qualified} is defined in another way by now")

    def find(self, namespace: str, name: str) -> Entry | None:
        """The stored object, to be changed or deleted; raises Superseded."""
        self.check_current()
        return self.bucket.get(namespace if self.namespaced else "", name)

    def not_found(self, name: str) -> status.StatusError:
        return status.not_found(self.plural, self.group, name)

    @abstractmethod
    def decode(self, parsed: Any, *, applied: bool = False) -> tuple[Json, list[str]]:
        """A parsed body as a well-shaped object of this version, and its unknown fields.

        `applied`: it is the result of an apply, in which nulls are left for validation.
        """

    def is_settled(self, entry: Entry) -> bool:
        """Whether the stored object, as `read` gives it, is known to be what `decode` would make of it."""
        return False

    def is_up_to_date(self, entry: Entry) -> bool:
        """Whether an object that was read and not changed would be stored as it is.

        If not, a write that changes nothing is stored nevertheless: that is how objects are migrated.
        """
        return True

    def decode_changed(self, parsed: Json, settled: Json) -> tuple[Json, list[str]]:
        """Like `decode`, for a change of a settled object that shares what is unchanged with it."""
        raise NotImplementedError

    @abstractmethod
    def raw_body(self, entry: Entry) -> bytes | None:
        """The stored text if it can be served in this version as it is."""

    def raw_bodies(self, entries: Sequence[Entry]) -> list[bytes] | None:
        """The stored texts if all can be served in this version as they are."""
        bodies = [body for entry in entries if (body := self.raw_body(entry)) is not None]
        return bodies if len(bodies) == len(entries) else None

    @abstractmethod
    def read(self, entry: Entry) -> Json:
        """A fresh object in this version, with apiVersion and kind."""

    @property
    def uses_webhook(self) -> bool:
        """Whether a webhook converts between the versions of this kind."""
        return False

    def needs_webhook(self, entry: Entry) -> bool:
        """Whether `read` cannot serve this entry because a webhook converts it: use `read_many`."""
        return False

    async def read_many(self, entries: Sequence[Entry]) -> list[Json]:
        """Like `read`, also where versions are converted by a webhook (one call for all)."""
        return [self.read(entry) for entry in entries]

    @abstractmethod
    async def convert_from(self, obj: Json, source: Resource) -> Json:
        """An object of `source`, another version of this kind, in this version."""

    @abstractmethod
    async def to_value(self, obj: Json) -> bytes:
        """The text to store, in the storage version."""

    @property
    def written_mark(self) -> object:
        """What `Entry.mark` is for objects of this version that are stored now."""
        return None

    @abstractmethod
    def wrong_kind(self, kind: str, obj: Json) -> status.StatusError:
        """A body of another kind."""

    def check_create_allowed(self, name: str) -> None:
        """Raises while no new objects are accepted (a CRD that is being deleted), or Superseded."""
        return

    def selectable(self, obj: Json) -> Mapping[str, str] | None:
        """The values of the selectable fields beyond name and namespace; None if there are none."""
        fields = self.strategy.selectable_fields
        return {path: value(obj) for path, value in fields.items()} if fields else None

    @property
    @abstractmethod
    def printer(self) -> Printer:
        """What Tables show of the objects."""

    @property
    @abstractmethod
    def model(self) -> TypeModel:
        """How objects are merged, field by field."""

    def merge(self, live: Json, patch: Json) -> Json:
        """`patch` over `live` as an apply would merge it, ownership aside."""
        return merge_configuration(self.model, live, patch)

    @property
    @abstractmethod
    def field_manager(self) -> FieldManager:
        """Who owns which field."""

    async def track(self, work: Callable[[FieldManager], _Result]) -> _Result:
        """Run `work`, which asks the field manager, and return its result.

        It may be run several times, as far as a webhook has to convert between the versions of the owners.
        """
        return work(self.field_manager)

    def summarized(self, obj: Json) -> Json:
        """The form of an object that Tables and bare metadata are made of."""
        return obj

    async def as_if_stored(self, obj: Json) -> Json:
        """What a dry run shows: the object after it went to the storage version and back."""
        return obj


def decode_problem(group: str, kind: str, api_version: str, given: str) -> str:
    """Why a body of type `given` cannot be taken for `kind` of `group`, in Go's words."""
    if not is_registered(api_version, given):
        return not_registered(api_version, given)
    version = api_version.rpartition("/")[2]
    return f"converting ({version}.{given}) to ({_internal(group)}.{kind}): unknown conversion"


def is_registered(api_version: str, kind: str) -> bool:
    """Whether upstream can decode the kind in that version, served or not."""
    group, _, version = api_version.rpartition("/")
    try:
        struct_for(group, version, kind)
    except KeyError:
        return is_retired(api_version, kind)
    return True


def not_registered(api_version: str, kind: str) -> str:
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'


def _internal(group: str) -> str:
    """The Go package of a group's internal types."""
    return group.partition(".")[0] or "core"


def parse_body(content_type: str, body: bytes, kind: str, *, is_custom: bool) -> tuple[Any, bool]:
    """A request body as a document; the flag tells whether it was JSON text (for duplicate checks)."""
    media = decoding.media_type(content_type) if content_type else decoding.JSON_TYPE
    if media == decoding.JSON_TYPE or not media:
        try:
            return decoding.parse_json(body), True
        except decoding.BeyondDouble:
            raise
        except decoding.ParseError as error:
            why = f"couldn't get version/kind; json parse error: {error}"
            raise decoding.unrecognized(kind, why, body) from None
    if media == decoding.YAML_TYPE:
        try:
            return decoding.parse_yaml(body), False
        except decoding.ParseError as error:
            raise decoding.unrecognized(kind, str(error), body) from None
    if media == decoding.PROTOBUF_TYPE and not is_custom:
        return _parse_protobuf(body, kind), False
    accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    raise status.unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    )


def _parse_protobuf(body: bytes, kind: str) -> Json:
    if not body.startswith(b"k8s\0"):
        why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        raise decoding.unrecognized(kind, why, body)
    try:
        return protobuf.decode(body)
    except protobuf.ProtobufError as error:
        raise decoding.unrecognized(kind, str(error), body) from None
