"""Annotations that mean something to pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import MAX_INT32
from quarterdeck.wire.fielderror import FieldError, invalid
from quarterdeck.wire.gonumber import parse_int

#: a pod that a kubelet runs from a file and only shows to the server
MIRROR: Final = "kubernetes.io/config.mirror"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: Mapping[str, Any], field: str
) -> list[FieldError]:
    """Annotations that mean something to pods."""
    errors: list[FieldError] = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{field}[{MIRROR}]", annotations[MIRROR], text))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.append(invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    return errors


def _is_int32(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isdecimal() and digits.isascii()) or (len(digits) > 1 and digits[0] == "0"):
        return False
    return parse_int(text, -(2**31), MAX_INT32) is not None
