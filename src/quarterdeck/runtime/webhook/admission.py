"""One admission request as a handler sees it, and what becomes of it.

An ``Admission`` carries what the API server asked and collects the answer: warnings, audit annotations, a
message, a changed object. A handler denies by raising:

====================================  ==================================================================
``Denied("…")``                       403, reason Forbidden, that message, its causes as details
``ApiError`` (``Invalid`` …)          its Status word for word
``SchemaError``                       400: the object does not fit the type it is read as
another ``QuarterdeckError``          500 with its message (the cluster could not be read, say)
anything else                         500 ``panic: … [recovered]``, logged with traceback, counted
====================================  ==================================================================

Returning normally allows.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from quarterdeck.api import GroupVersionKind, Resource, decode
from quarterdeck.api.codec import decode_json
from quarterdeck.api.k8s.authentication import UserInfo
from quarterdeck.api.kind import GroupVersionResource
from quarterdeck.errors import ErrorCause, QuarterdeckError, SchemaError
from quarterdeck.runtime.webhook.review import ReviewRequest
from quarterdeck.wire.fielderror import FieldError, joined_text

R = TypeVar("R", bound=Resource)
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

MAX_WARNING: Final = 256
"""Characters of one warning; the API server cuts all of them together at 4096."""
_NULL: Final = (b"", b"null")


class Denied(QuarterdeckError):
    """The request is refused; the message is what the user reads after ``denied the request:``.

    ``causes`` name the fields that are at fault, for clients that point at them; they travel in
    ``status.details``. For a 422 with the usual wording, raise ``Invalid``.
    """

    def __init__(self, message: str, *causes: ErrorCause) -> None:
        super().__init__(message)
        self.causes: Final = causes


def deny(errors: Sequence[FieldError]) -> None:
    """Raise ``Denied`` for what is wrong with these fields, if anything is."""
    if errors:
        causes = (ErrorCause(each.kind.value, each.body, each.field) for each in errors)
        raise Denied(joined_text(errors), *causes)


class _DeletionMeta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Deletion(msgspec.Struct):
    metadata: _DeletionMeta = msgspec.field(default_factory=_DeletionMeta)


_deletion: Final = msgspec.json.Decoder(_Deletion)


class Admission:
    """A request under review."""

    __slots__ = ("_replaced", "_request", "audit_annotations", "message", "patched", "warnings")

    def __init__(self, request: ReviewRequest, *, replaced: bytes | None = None) -> None:
        """``replaced`` stands for the object: what earlier handlers of a chain made of it."""
        self._request: Final = request
        self._replaced: Final = replaced
        self.warnings: Final[list[str]] = []
        self.audit_annotations: Final[dict[str, str]] = {}
        self.message = ""
        """Shown with an allowed request; optional."""
        self.patched: bytes | None = None
        """The object as a mutating handler wants it; ``None`` leaves it alone."""

    @property
    def uid(self) -> str:
        """Id of this request."""
        return self._request.uid

    @property
    def operation(self) -> str:
        """``CREATE``, ``UPDATE``, ``DELETE`` or ``CONNECT``."""
        return self._request.operation

    @property
    def gvk(self) -> GroupVersionKind:
        """Kind of the object as it was sent to us (converted, if the rule is for another version)."""
        return self._request.kind.gvk()

    @property
    def gvr(self) -> GroupVersionResource:
        """Resource the rule matched."""
        return self._request.resource.gvr()

    @property
    def subresource(self) -> str:
        """``status``, ``scale`` … or empty."""
        return self._request.sub_resource

    @property
    def request_gvk(self) -> GroupVersionKind:
        """Kind the user's own request was made with."""
        kind = self._request.request_kind
        return kind.gvk() if kind is not None else self.gvk

    @property
    def request_gvr(self) -> GroupVersionResource:
        """Resource of the user's own request."""
        resource = self._request.request_resource
        return resource.gvr() if resource is not None else self.gvr

    @property
    def name(self) -> str:
        """Name of the object; empty on a create with ``generateName``."""
        return self._request.name

    @property
    def namespace(self) -> str:
        """Namespace of the object; empty for cluster-scoped kinds."""
        return self._request.namespace

    @property
    def is_dry_run(self) -> bool:
        """Nothing will be stored: side effects outside this request must not happen."""
        return self._request.dry_run is True

    @property
    def username(self) -> str:
        """Who asks."""
        return self._request.user_info.username

    @property
    def user(self) -> UserInfo:
        """Who asks, with groups and extra."""
        user = self._request.user_info
        extra = bytes(user.extra)
        return UserInfo(
            username=user.username,
            uid=user.uid,
            groups=user.groups or (),
            extra={key: tuple(values) for key, values in decode_json(extra).items()}
            if extra not in _NULL
            else {},
        )

    @property
    def options(self) -> dict[str, Any]:
        """The create, update or delete options of the request."""
        raw = bytes(self._request.options)
        return cast("dict[str, Any]", decode_json(raw)) if raw not in _NULL else {}

    @property
    def raw_object(self) -> bytes:
        """JSON of the object; empty on DELETE."""
        raw = self._replaced if self._replaced is not None else bytes(self._request.object)
        return b"" if raw == b"null" else raw

    @property
    def raw_old_object(self) -> bytes:
        """JSON of the object before; empty on CREATE."""
        raw = bytes(self._request.old_object)
        return b"" if raw == b"null" else raw

    @property
    def is_deleting(self) -> bool:
        """Whether this is an update of an object that is being deleted."""
        raw = self.raw_old_object
        if self.operation != "UPDATE" or b'"deletionTimestamp"' not in raw:
            return False
        return bool(_deletion.decode(raw).metadata.deletion_timestamp)

    def read(self, kind: type[R]) -> R:
        """The object as a type; raises ``SchemaError`` when it is none."""
        raw = self._replaced if self._replaced is not None else self._request.object
        return _read(raw, kind)

    def read_old(self, kind: type[R]) -> R:
        """The object before as a type; raises ``SchemaError`` when there is none."""
        return _read(self._request.old_object, kind)

    def document(self) -> dict[str, Any]:
        """The object as a private plain document; raises ``SchemaError`` when it is none."""
        return _document(self.raw_object)

    def old_document(self) -> dict[str, Any]:
        """The object before as a private plain document; raises ``SchemaError`` when there is none."""
        return _document(self.raw_old_object)

    def warn(self, text: str) -> None:
        """Show the user a warning, whatever the outcome; cut at ``MAX_WARNING`` characters."""
        self.warnings.append(text[:MAX_WARNING])

    def annotate(self, key: str, value: str) -> None:
        """Add an audit annotation; the API server prefixes the key with the webhook's name."""
        self.audit_annotations[key] = value

    def continued(self) -> "Admission":
        """The request for the next handler of a chain: with the object as it stands now."""
        return Admission(self._request, replaced=self.patched if self.patched is not None else self._replaced)

    def absorb(self, step: "Admission") -> None:
        """Take over what a handler of a chain answered."""
        self.warnings.extend(step.warnings)
        self.audit_annotations.update(step.audit_annotations)
        self.message = step.message or self.message
        if step.patched is not None:
            self.patched = step.patched

    def log_fields(self, kind: str = "", group: str = "") -> dict[str, object]:
        """The fields every log line of this request carries."""
        request = self._request
        kind = kind or request.kind.kind
        resource = request.resource
        return {
            "webhookGroup": group or request.kind.group,
            "webhookKind": kind,
            kind or "object": {"name": request.name, "namespace": request.namespace},
            "namespace": request.namespace,
            "name": request.name,
            "resource": {
                "group": resource.group,
                "version": resource.version,
                "resource": resource.resource,
            },
            "user": request.user_info.username,
            "requestID": request.uid,
        }


def _read(raw: msgspec.Raw | bytes, kind: type[R]) -> R:
    info = kind.type_info
    if not raw:
        raise SchemaError("there is no content to decode")
    obj = decode(raw, kind)
    if obj.kind != info.kind:
        raise SchemaError(f"expected a {info.kind} but got a {obj.kind or 'document without kind'}")
    if obj.api_version != info.gvk.api_version:
        raise SchemaError(f"expected {info.kind} of {info.gvk.api_version} but got {obj.api_version}")
    return obj


def _document(raw: bytes) -> dict[str, Any]:
    if not raw:
        raise SchemaError("there is no content to decode")
    document = decode_json(raw)
    if type(document) is not dict:
        raise SchemaError("expected an object")
    return document
