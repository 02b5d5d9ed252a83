"""Which fields a write through a resource or subresource cannot change, for every built-in kind.

The strategies put such fields back to their stored values, so writing them gives no ownership. The
result is what `FieldManager` takes as `ignored`: "" is the main resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .fieldset import LEAF, FieldSet

#: subresources of custom resources whose ignored fields hold in the version of the request only
CUSTOM_OWN_VERSION_ONLY: Final = frozenset([""])

_STATUS: Final[FieldSet] = {"f:status": LEAF}
_SPEC: Final[FieldSet] = {"f:spec": LEAF}
_SPEC_AND_METADATA: Final[FieldSet] = {"f:spec": LEAF, "f:metadata": LEAF}
_PLAIN: Final[Mapping[str, FieldSet]] = {"": _STATUS, "status": _SPEC}
_STRICT: Final[Mapping[str, FieldSet]] = {"": _STATUS, "status": _SPEC_AND_METADATA}

#: groups whose kinds with a status keep metadata in status writes
_STRICT_GROUPS: Final = frozenset(
    [
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    ]
)
_KINDS: Final[Mapping[tuple[str, str], Mapping[str, FieldSet]]] = {
    ("", "Namespace"): {**_PLAIN, "finalize": _STATUS},
    # resize and ephemeralcontainers put back most of a pod, too, but upstream does not say so to its owners
    ("", "Pod"): {
        "": _STATUS,
        "status": {"f:spec": LEAF, "f:metadata": {"f:deletionTimestamp": LEAF, "f:ownerReferences": LEAF}},
    },
    ("apps", "Deployment"): {"": _STATUS, "status": {"f:spec": LEAF, "f:metadata": {"f:labels": LEAF}}},
    ("networking.k8s.io", "ServiceCIDR"): _STRICT,
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "": {"f:spec": LEAF, "f:status": LEAF},
        "status": {"f:spec": LEAF, "f:status": {"f:conditions": LEAF}},
        "approval": {"f:spec": LEAF, "f:status": {"f:certificate": LEAF}},
    },
}


def builtin(group: str, kind: str, *, has_status: bool) -> Mapping[str, FieldSet]:
    """Of a built-in kind; `has_status`: it has a status subresource."""
    if not has_status:
        return {}
    known = _KINDS.get((group, kind))
    if known is not None:
        return known
    return _STRICT if group in _STRICT_GROUPS else _PLAIN


def custom_resource(*, has_status: bool) -> Mapping[str, FieldSet]:
    """Of a custom resource; `has_status`: the version has the status subresource."""
    return _STRICT if has_status else {}
