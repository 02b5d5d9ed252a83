"""The wire of an AdmissionReview, read for speed.

``quarterdeck.api.k8s.admission`` has the same types for those who write reviews. These here are for the
server that reads thousands a second: the objects stay undecoded (a handler decodes them as its own type),
fields a newer API server may add are skipped, and nothing is validated that no handler looks at.
"""

from typing import Final

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.api.codec import UNREADABLE
from quarterdeck.api.kind import GroupVersionResource
from quarterdeck.errors import QuarterdeckError

VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_ABSENT: Final = msgspec.Raw(b"")


class _Kind(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    kind: str = ""

    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


class _Resource(msgspec.Struct, frozen=True, gc=False):
    group: str = ""
    version: str = ""
    resource: str = ""

    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.resource)


class ReviewUser(msgspec.Struct, frozen=True, gc=False):
    """Who asks; ``extra`` stays undecoded."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: msgspec.Raw = _ABSENT


_NO_KIND: Final = _Kind()
_NO_RESOURCE: Final = _Resource()
_NOBODY: Final = ReviewUser()


class ReviewRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the API server asks; names are those of the wire."""

    uid: str = ""
    kind: _Kind = _NO_KIND
    resource: _Resource = _NO_RESOURCE
    sub_resource: str = ""
    request_kind: _Kind | None = None
    request_resource: _Resource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: ReviewUser = _NOBODY
    object: msgspec.Raw = _ABSENT
    old_object: msgspec.Raw = _ABSENT
    dry_run: bool | None = None
    options: msgspec.Raw = _ABSENT


class Review(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The envelope."""

    api_version: str = ""
    kind: str = ""
    request: ReviewRequest | None = None


class _Uid(msgspec.Struct, frozen=True):
    uid: str = ""


class _Head(msgspec.Struct, frozen=True, rename="camel"):
    """Just enough of a bad review to answer it properly."""

    api_version: str = ""
    kind: str = ""
    request: _Uid | None = None


class BadReview(QuarterdeckError):
    """The body is no review of ours; ``uid`` and ``api_version`` as far as they could be read."""

    def __init__(self, message: str, head: _Head | None = None) -> None:
        super().__init__(message)
        known = head is not None and head.kind == "AdmissionReview" and head.api_version in VERSIONS
        self.uid: Final = head.request.uid if head is not None and head.request is not None else ""
        self.api_version: Final = head.api_version if head is not None and known else VERSIONS[0]


_decode: Final = msgspec.json.Decoder(Review).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


def read_review(body: bytes) -> tuple[str, ReviewRequest]:
    """API version and request of a review; raises ``BadReview`` saying what is wrong with it."""
    try:
        review = _decode(body)
    except UNREADABLE as error:
        raise _explain(body, error) from error
    request = review.request
    if request is None or review.kind != "AdmissionReview" or review.api_version not in VERSIONS:
        raise _refuse(_Head(review.api_version, review.kind, _Uid(request.uid) if request else None))
    return review.api_version, request


def _explain(body: bytes, error: Exception) -> BadReview:
    if not isinstance(error, msgspec.ValidationError):
        return BadReview(f"couldn't get version/kind; json parse error: {error}")
    try:
        head = _decode_head(body)
    except UNREADABLE:
        return BadReview(f"couldn't decode the AdmissionReview: {error}")
    if head.kind != "AdmissionReview" or head.api_version not in VERSIONS:
        return _refuse(head)
    return BadReview(f"couldn't decode the AdmissionReview: {error}", head)


def _refuse(head: _Head) -> BadReview:
    if not head.kind:
        return BadReview("Object 'Kind' is missing, expected an AdmissionReview", head)
    if head.kind != "AdmissionReview" or head.api_version not in VERSIONS:
        return BadReview(
            f'no kind "{head.kind}" is registered for version "{head.api_version}", '
            f"expected AdmissionReview of {' or '.join(VERSIONS)}",
            head,
        )
    return BadReview("the AdmissionReview has no request", head)
