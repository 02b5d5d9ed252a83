"""Every exception Quarterdeck raises, in one tree.

::

    QuarterdeckError
    ├── ApiError                    the server answered, and the answer is not 2xx
    │   ├── BadRequest              400 BadRequest
    │   ├── Unauthorized            401 Unauthorized
    │   ├── Forbidden               403 Forbidden
    │   ├── NotFound                404 NotFound (from_cache tells a cache miss from the server's word)
    │   ├── MethodNotAllowed        405 MethodNotAllowed
    │   ├── NotAcceptable           406 NotAcceptable
    │   ├── AlreadyExists           409 AlreadyExists
    │   ├── Conflict                409 Conflict
    │   │   └── ApplyConflict       409 with causes of type FieldManagerConflict
    │   ├── Gone                    410 Gone
    │   │   └── Expired             410 Expired
    │   ├── TooLarge                413 RequestEntityTooLarge
    │   ├── UnsupportedMediaType    415 UnsupportedMediaType
    │   ├── Invalid                 422 Invalid
    │   ├── TooManyRequests         429 TooManyRequests
    │   ├── InternalError           500 InternalError
    │   ├── ServerTimeout           500 ServerTimeout
    │   ├── ServiceUnavailable      503 ServiceUnavailable
    │   └── Timeout                 504 Timeout
    ├── TransportError              there was no (complete) answer
    │   ├── ConnectError            nothing was sent
    │   ├── ReadTimeout             sent, no answer in time
    │   ├── StreamClosed            the connection ended in the middle
    │   └── ProtocolError           the peer does not speak HTTP or JSON as agreed
    ├── ConfigError                 kubeconfig, credentials or options cannot be used
    ├── SchemaError                 a document does not fit its type, or a type has no schema (field path)
    ├── PatchError                  a patch cannot be applied to a document
    ├── NoKindMatch                 the server does not serve that kind
    ├── AlreadyOwned                another controller owns the object
    ├── CacheError
    │   ├── NotCached               the kind is not cached
    │   └── NotSynced               the cache has not seen its first list yet
    └── ReconcileError
        ├── Terminal                do not retry until something changes
        └── ForeignObject           an object of the wanted name belongs to somebody else

Each room adds its own below the root, next to what raises them: ``apiserver.status.StatusError`` and what
becomes one on the way to an answer, ``apiserver.storage.StorageError``, CEL's compile and runtime errors,
``runtime.webhook.Denied``, ``runtime.Requeue`` (a result of a reconcile that may be raised), and so on. Those
that a caller of the standard library must be able to catch are ``ValueError`` or ``RuntimeError`` as well.

Callers branch on classes, never on message text. ``ApiError`` keeps the whole Status, the verb and the
path, so that a log line names the request. Messages are lower case without a full stop, except those
that come from a server, which are kept word for word.

This module imports nothing of ours: every room may use it.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, ClassVar, Final, Self

import msgspec

__all__ = [
    "AlreadyExists",
    "AlreadyOwned",
    "ApiError",
    "ApplyConflict",
    "BadRequest",
    "CacheError",
    "ConfigError",
    "Conflict",
    "ConnectError",
    "ErrorCause",
    "ErrorDetails",
    "Expired",
    "Forbidden",
    "ForeignObject",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NoKindMatch",
    "NotAcceptable",
    "NotCached",
    "NotFound",
    "NotSynced",
    "PatchError",
    "ProtocolError",
    "QuarterdeckError",
    "ReadTimeout",
    "ReconcileError",
    "SchemaError",
    "ServerTimeout",
    "ServiceUnavailable",
    "StreamClosed",
    "Terminal",
    "Timeout",
    "TooLarge",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "UnsupportedMediaType",
    "ignore_already_exists",
    "ignore_not_found",
    "reason_of",
]


class QuarterdeckError(Exception):
    """Root of everything raised on purpose by this package."""


class ErrorCause(msgspec.Struct, frozen=True):
    """One entry of ``status.details.causes``: which field, why, in which words."""

    reason: str = ""
    message: str = ""
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        """The entry as it stands in a Status."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: text for name, text in parts.items() if text}


class ErrorDetails(msgspec.Struct, frozen=True):
    """``status.details``: what the error is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[ErrorCause, ...] = ()
    retry_after_seconds: int = 0


class ApiError(QuarterdeckError):
    """The server refused: carries the decoded Status, the verb and the URL path.

    ``verb`` and ``path`` are empty for errors that never travelled (a cache miss, an error built by an
    admission handler).
    """

    code: int = 500
    reason: str = ""
    by_reason: ClassVar[dict[str, type["ApiError"]]] = {}
    by_code: ClassVar[dict[int, type["ApiError"]]] = {}

    def __init__(
        self,
        message: str = "",
        *,
        code: int | None = None,
        reason: str | None = None,
        details: ErrorDetails | None = None,
        verb: str = "",
        path: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason
        self.details = details if details is not None else ErrorDetails()
        self.verb = verb
        self.path = path

    def __str__(self) -> str:
        return self.message

    def __init_subclass__(cls, *, code: int = 0, reason: str = "") -> None:
        super().__init_subclass__()
        if code:
            cls.code = code
            cls.reason = reason
            ApiError.by_reason.setdefault(reason, cls)
            ApiError.by_code.setdefault(code, cls)

    @property
    def retry_after(self) -> int:
        """Seconds the server asks to wait; 0 when it did not say."""
        return self.details.retry_after_seconds

    @classmethod
    def from_status(
        cls, status: Mapping[str, Any], *, code: int = 0, verb: str = "", path: str = ""
    ) -> "ApiError":
        """Build the right subclass from a decoded ``Status`` document.

        The class follows the reason, then the code: a server (or a webhook) may answer with a reason
        this version does not know.
        """
        raw = status.get("details") or {}
        details = ErrorDetails(
            name=_text(raw.get("name")),
            group=_text(raw.get("group")),
            kind=_text(raw.get("kind")),
            uid=_text(raw.get("uid")),
            causes=tuple(
                ErrorCause(_text(c.get("reason")), _text(c.get("message")), _text(c.get("field")))
                for c in raw.get("causes") or ()
            ),
            retry_after_seconds=int(raw.get("retryAfterSeconds") or 0),
        )
        number = int(status.get("code") or code or 500)
        reason = _text(status.get("reason"))
        kind = cls.class_for(number, reason, details.causes)
        message = _text(status.get("message"))
        return kind(message, code=number, reason=reason, details=details, verb=verb, path=path)

    @classmethod
    def class_for(cls, code: int, reason: str, causes: Iterable[ErrorCause] = ()) -> type["ApiError"]:
        """The exception class of a reason, else of a code, else ``ApiError`` itself."""
        kind = ApiError.by_reason.get(reason) or ApiError.by_code.get(code) or ApiError
        if kind is Conflict and any(c.reason == "FieldManagerConflict" for c in causes):
            return ApplyConflict
        return kind

    def to_status(self) -> dict[str, Any]:
        """The ``v1 Status`` document of this error, as an admission answer or a log needs it."""
        named = self.details
        names = {"name": named.name, "group": named.group, "kind": named.kind, "uid": named.uid}
        details: dict[str, Any] = {key: value for key, value in names.items() if value}
        if self.details.causes:
            details["causes"] = [cause.to_dict() for cause in self.details.causes]
        if self.details.retry_after_seconds:
            details["retryAfterSeconds"] = self.details.retry_after_seconds
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if details:
            status["details"] = details
        return status


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class BadRequest(ApiError, code=400, reason="BadRequest"):
    """The request makes no sense to the server."""


class Unauthorized(ApiError, code=401, reason="Unauthorized"):
    """The server does not know who asks."""


class Forbidden(ApiError, code=403, reason="Forbidden"):
    """The caller may not do this."""


class NotFound(ApiError, code=404, reason="NotFound"):
    """No such object; ``from_cache`` is true when a cache said so, not the server."""

    from_cache: bool = False

    @classmethod
    def in_cache(cls, kind: str, name: str) -> Self:
        """A cache miss: worded with the kind, because a cache does not know the resource."""
        error = cls(f'{kind} "{name}" not found', details=ErrorDetails(name=name, kind=kind))
        error.from_cache = True
        return error


class MethodNotAllowed(ApiError, code=405, reason="MethodNotAllowed"):
    """The resource does not support the verb."""


class NotAcceptable(ApiError, code=406, reason="NotAcceptable"):
    """The server cannot produce a media type the caller accepts."""


class Conflict(ApiError, code=409, reason="Conflict"):
    """The object was changed meanwhile: read again, decide again."""


class ApplyConflict(Conflict):
    """Server-side apply met fields owned by another manager; the causes name them."""


class AlreadyExists(ApiError, code=409, reason="AlreadyExists"):
    """An object of that name is there already."""


class Gone(ApiError, code=410, reason="Gone"):
    """The requested version or resource is no longer available."""


class Expired(Gone, code=410, reason="Expired"):
    """The resource version or continue token is too old: list again."""


class TooLarge(ApiError, code=413, reason="RequestEntityTooLarge"):
    """The request body exceeds the server's limit."""


class UnsupportedMediaType(ApiError, code=415, reason="UnsupportedMediaType"):
    """The server does not read the body's media type (a strategic patch on a custom resource)."""


class Invalid(ApiError, code=422, reason="Invalid"):
    """The object fails validation; the causes name field, reason and message."""


class TooManyRequests(ApiError, code=429, reason="TooManyRequests"):
    """The server sheds load, or an eviction would break a disruption budget."""


class InternalError(ApiError, code=500, reason="InternalError"):
    """Something broke inside the server (a webhook included)."""


class ServerTimeout(ApiError, code=500, reason="ServerTimeout"):
    """The server could not complete the operation now; trying again may work."""


class ServiceUnavailable(ApiError, code=503, reason="ServiceUnavailable"):
    """The server, or the extension server behind it, is not available."""


class Timeout(ApiError, code=504, reason="Timeout"):
    """The server gave up within its own time limit."""


class TransportError(QuarterdeckError):
    """No complete answer arrived; nothing is known about what the server did, see the subclasses."""


class ConnectError(TransportError):
    """No connection: not one byte of the request was sent, so a retry is always safe."""


class ReadTimeout(TransportError):
    """The request was sent and not answered in time; the server may have acted on it."""


class StreamClosed(TransportError):
    """The connection ended before the answer was complete; the server may have acted on it."""


class ProtocolError(TransportError):
    """The peer sent something that is not the protocol (bad HTTP, bad JSON, an oversized line)."""


class ConfigError(QuarterdeckError):
    """Configuration or credentials cannot be used; the message names the file and the fix."""


class SchemaError(QuarterdeckError):
    """A document does not fit its type, or a type cannot be a schema; ``path`` says where."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.detail: Final = message
        self.path: Final = path


class PatchError(QuarterdeckError):
    """A patch cannot be applied to a document; the message is that of the library Kubernetes uses."""


class NoKindMatch(QuarterdeckError):
    """The server serves no such kind (its CRD may not be installed yet)."""

    def __init__(self, kind: str, api_version: str) -> None:
        super().__init__(f'no matches for kind "{kind}" in version "{api_version}"')
        self.kind: Final = kind
        self.api_version: Final = api_version


class AlreadyOwned(QuarterdeckError):
    """The object already has a controller owner, and it is another one."""

    def __init__(self, key: str, owner_kind: str, owner_name: str) -> None:
        super().__init__(f"Object {key} is already owned by another {owner_kind} controller {owner_name}")
        self.key: Final = key
        self.owner_kind: Final = owner_kind
        self.owner_name: Final = owner_name


class CacheError(QuarterdeckError):
    """A cached read cannot be answered."""


class NotCached(CacheError):
    """The kind has no informer: declare the watch, or read with ``live=True``."""


class NotSynced(CacheError):
    """The informer has not delivered its first list yet."""


class ReconcileError(QuarterdeckError):
    """Root of what a reconciler raises to steer its own retry."""


class Terminal(ReconcileError):
    """Do not retry until something changes."""


class ForeignObject(ReconcileError):
    """An object of the wanted name is there and belongs to somebody else: it was left as it is.

    ``holder`` says whose it is, in words for people.
    """

    def __init__(
        self, api_version: str, kind: str, namespace: str, name: str, *, owner: str, holder: str, uid: str
    ) -> None:
        key = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {key} exists and does not belong to {owner}: {holder}")
        self.api_version: Final = api_version
        self.kind: Final = kind
        self.namespace: Final = namespace
        self.name: Final = name
        self.holder: Final = holder
        self.uid: Final = uid
        """Of the object that is there."""


def reason_of(error: BaseException) -> str:
    """What an error says to people, in one line.

    The operating system's words come without its number and a path, those of PyYAML with the place instead of
    a picture of it, and those of msgspec with the field in front and the names that users know for types.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return (
            f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None) or 'not YAML'}"
        )
    return _field_reason(str(error)) if isinstance(error, msgspec.MsgspecError) else str(error)


def _field_reason(text: str) -> str:
    """A sentence of msgspec in our words."""
    text, _, place = text.partition(" - at `")
    path = place.rstrip("`").removeprefix("$").lstrip(".")
    if found := re.fullmatch(r"Expected `(.+)`, got `(.+)`", text):
        wanted, given = (_TYPE_NAMES.get(name, name) for name in found.groups())
        text = f"must be {wanted.replace(' | null', ' or null')}, not {given}"
    elif found := re.fullmatch(r"Object contains unknown field `(.+)`", text):
        text = f"unknown field {found[1]}"
    elif found := re.fullmatch(r"Object missing required field `(.+)`", text):
        text = f"the field {found[1]} is missing"
    else:
        text = text[:1].lower() + text[1:].replace("`", "")
    return f"{path}: {text}" if path else text


_TYPE_NAMES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def ignore_not_found() -> AbstractContextManager[None]:
    """Swallow ``NotFound``: the object is already gone, which is what was wanted."""
    return suppress(NotFound)


def ignore_already_exists() -> AbstractContextManager[None]:
    """Swallow ``AlreadyExists``: somebody else created it first."""
    return suppress(AlreadyExists)
