"""Status errors: every failure the API server answers with, as one exception.

    StatusError          carries the whole Status; the constructors below build the usual ones

The texts are Kubernetes' own; clients match on reason and code, people read the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle
from quarterdeck.wire.fielderror import FieldError, joined_text

from . import errorlimit


class StatusError(QuarterdeckError):
    """A request that failed, with the Status to answer."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: int = 0,
        headers: Sequence[tuple[str, str]] = (),
        list_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.details = details
        self.retry_after = retry_after
        self.headers = headers
        self.list_metadata = list_metadata

    def to_status(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.list_metadata or {}),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None or self.retry_after:
            details = dict(self.details or {})
            if self.retry_after:
                details["retryAfterSeconds"] = self.retry_after
            status["details"] = details
        status["code"] = self.code
        return status


def success(details: Mapping[str, Any] | None = None, code: int = 0) -> Json:
    """The Status of a delete (`details`) or of a binding and an eviction (`code` 201)."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = dict(details)
    if code:
        status["code"] = code
    return status


def qualified(resource: str, group: str) -> str:
    """`pods`, or `deployments.apps`: a resource or kind with its group."""
    return f"{resource}.{group}" if group else resource


def _object_details(resource: str, group: str, name: str) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if resource:
        details["kind"] = resource
    return details


def bad_request(message: str) -> StatusError:
    return StatusError(400, message, reason="BadRequest")


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", reason="Unauthorized")


def forbidden(
    resource: str, group: str, name: str, why: str, *, causes: Sequence[Mapping[str, str]] = ()
) -> StatusError:
    """Refused by authorization or admission: `<resource> "<name>" is forbidden: <why>`."""
    subject = qualified(resource, group)
    if not resource:
        message = f"forbidden: {why}"
    elif name:
        message = f"{subject} {gostyle.quote(name)} is forbidden: {why}"
    else:
        message = f"{subject} is forbidden: {why}"
    details = _object_details(resource, group, name)
    if causes:
        details["causes"] = list(causes)
    return StatusError(403, message, reason="Forbidden", details=details)


def not_found(resource: str, group: str, name: str) -> StatusError:
    return StatusError(
        404,
        f"{qualified(resource, group)} {gostyle.quote(name)} not found",
        reason="NotFound",
        details=_object_details(resource, group, name),
    )


def resource_not_found() -> StatusError:
    """Unknown resource, subresource or version under a built-in group."""
    return StatusError(404, "the server could not find the requested resource", reason="NotFound", details={})


def already_exists(resource: str, group: str, name: str, *, is_deleting: bool = False) -> StatusError:
    going = "object is being deleted: " if is_deleting else ""
    return StatusError(
        409,
        f"{going}{qualified(resource, group)} {gostyle.quote(name)} already exists",
        reason="AlreadyExists",
        details=_object_details(resource, group, name),
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    return StatusError(
        409,
        f"Operation cannot be fulfilled on {qualified(resource, group)} {gostyle.quote(name)}: {why}",
        reason="Conflict",
        details=_object_details(resource, group, name),
    )


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422 with one cause per field error; `kind` is the Kind, not the resource."""
    details = _object_details(kind, group, name)
    shown = errorlimit.shown(errors)
    more = "" if len(shown) == len(errors) else ", and more"
    details["causes"] = [error.cause() for error in shown]
    return StatusError(
        422,
        f"{qualified(kind, group)} {gostyle.quote(name)} is invalid: {joined_text(shown)}{more}",
        reason="Invalid",
        details=details,
    )


def rejected() -> StatusError:
    """422 for what cannot be done, with no word about why."""
    return StatusError(
        422,
        "the server rejected our request due to an error in our request",
        reason="Invalid",
        details={},
    )


def method_not_allowed() -> StatusError:
    return StatusError(
        405,
        "the server does not allow this method on the requested resource",
        reason="MethodNotAllowed",
        details={},
    )


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, message, reason="NotAcceptable")


def expired(message: str) -> StatusError:
    return StatusError(410, message, reason="Expired")


def too_large(message: str) -> StatusError:
    return StatusError(413, message, reason="RequestEntityTooLarge")


def unsupported_media_type(message: str) -> StatusError:
    return StatusError(415, message, reason="UnsupportedMediaType")


def internal(message: str) -> StatusError:
    return StatusError(
        500,
        f"Internal error occurred: {message}",
        reason="InternalError",
        details={"causes": [{"message": message}]},
    )


def plain_error(message: str) -> StatusError:
    """500 without a reason: what upstream answers where a plain Go error leaks."""
    return StatusError(500, message)


def unavailable(message: str) -> StatusError:
    return StatusError(503, message, reason="ServiceUnavailable")


def insufficient_storage(message: str) -> StatusError:
    """The disk is full; a client that waits a moment may try again."""
    return StatusError(
        507, message, reason="InsufficientStorage", details={}, retry_after=1, headers=[("Retry-After", "1")]
    )


def timeout(message: str) -> StatusError:
    return StatusError(504, f"Timeout: {message}", reason="Timeout", details={})
