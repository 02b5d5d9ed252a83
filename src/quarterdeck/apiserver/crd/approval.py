"""Groups of the Kubernetes community: a CRD in one of them needs an approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.gourl import UrlError, parse_request_uri
from quarterdeck.apiserver.schema.lenient import text
from quarterdeck.wire.fielderror import FieldError, invalid, required

from .internalspec import InternalSpec, dig

APPROVAL: Final = "api-approved.kubernetes.io"


def approval_state(obj: Json) -> tuple[str, str]:
    """Whether a CRD in a community group is `approved`, `bypassed`, `missing` or `invalid`, and why."""
    value = dig(obj, "metadata", "annotations", APPROVAL)
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not isinstance(value, str) or not value:
        return "missing", f'protected groups must have approval annotation "{APPROVAL}", {see}'
    if value.startswith("unapproved"):
        return "bypassed", f'not approved: "{value}"'
    try:
        url = parse_request_uri(value)
    except UrlError:
        url = None
    if url is not None and url.host and url.scheme:
        return "approved", f"approved in {value}"
    form = 'with either a URL or a reason starting with "unapproved"'
    return "invalid", f'protected groups must have approval annotation "{APPROVAL}" {form}, {see}'


def is_community_group(group: str) -> bool:
    """Whether CRDs of a group need an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_errors(obj: Json, spec: InternalSpec, old: Json | None) -> Iterator[FieldError]:
    if not is_community_group(text(spec.raw, "group")):
        return
    state, reason = approval_state(obj)
    if old is not None and approval_state(old)[0] == state:
        return
    path = f"metadata.annotations[{APPROVAL}]"
    if state == "missing":
        yield required(path, reason)
    elif state == "invalid":
        yield invalid(path, dig(obj, "metadata", "annotations", APPROVAL), reason)
