"""The wire of admission and conversion webhooks (admission.k8s.io/v1, apiextensions.k8s.io/v1).

Written by hand: the objects under review stay undecoded JSON (``msgspec.Raw``), because a handler
decodes them as its own type and a mutating one must diff against the very bytes it received.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from quarterdeck.api.k8s.authentication import UserInfo
from quarterdeck.api.marker import Required
from quarterdeck.api.meta import Status
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, field, omitempty

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionReview",
    "ConversionRequest",
    "ConversionResponse",
    "ConversionReview",
    "GroupVersionKindReference",
    "GroupVersionResourceReference",
]


class GroupVersionKindReference(Model):
    """A kind as reviews name it; always written in full."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResourceReference(Model):
    """A resource as reviews name it; always written in full."""

    group: str = ""
    version: str = ""
    resource: str = ""


class AdmissionRequest(Model):
    """What the server asks."""

    uid: str = ""
    kind: GroupVersionKindReference = omitempty(GroupVersionKindReference())
    resource: GroupVersionResourceReference = omitempty(GroupVersionResourceReference())
    sub_resource: str = omitempty("")
    request_kind: Maybe[GroupVersionKindReference] = UNSET
    request_resource: Maybe[GroupVersionResourceReference] = UNSET
    request_sub_resource: str = omitempty("")
    name: str = omitempty("")
    namespace: str = omitempty("")
    operation: Annotated[str, Required()] = omitempty("")
    user_info: UserInfo = omitempty(UserInfo())
    object: Maybe[msgspec.Raw] = UNSET
    old_object: Maybe[msgspec.Raw] = UNSET
    dry_run: Maybe[bool] = UNSET
    options: Maybe[msgspec.Raw] = UNSET


class AdmissionResponse(Model):
    """What the webhook answers."""

    uid: str = ""
    allowed: bool = False
    status: Maybe[Status] = UNSET
    patch: Maybe[bytes] = UNSET
    patch_type: Maybe[str] = UNSET
    audit_annotations: Map[str, str] = omitempty(EMPTY_MAP)
    warnings: Seq[str] = omitempty(())


class AdmissionReview(Model):
    """The envelope of request and response; ``api_version`` is echoed."""

    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"
    request: Maybe[AdmissionRequest] = UNSET
    response: Maybe[AdmissionResponse] = UNSET


class ConversionRequest(Model):
    """Objects to convert, and to what."""

    uid: str = ""
    desired_api_version: str = field(name="desiredAPIVersion", default="")
    objects: Seq[msgspec.Raw] = omitempty(())


class ConversionResponse(Model):
    """The converted objects, in the order asked for, or why there are none."""

    uid: str = ""
    converted_objects: Seq[msgspec.Raw] = omitempty(())
    result: Status = omitempty(Status())


class ConversionReview(Model):
    """The envelope of a conversion."""

    api_version: str = "apiextensions.k8s.io/v1"
    kind: str = "ConversionReview"
    request: Maybe[ConversionRequest] = UNSET
    response: Maybe[ConversionResponse] = UNSET
