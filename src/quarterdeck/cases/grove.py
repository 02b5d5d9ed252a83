"""The kinds of grove cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .grove_admission import AdmissionKind, AuthorizerKind
from .grove_backend import PrepareKind, SyncKind
from .grove_life import ChildrenKind, LifecycleKind
from .grove_start import ConfigKind, StartupKind
from .registry import Kind

KINDS: Final[Mapping[str, Kind]] = {
    "admission_create": AdmissionKind(),
    "admission_update": AdmissionKind(),
    "authorizer": AuthorizerKind(),
    "config_validate": ConfigKind(),
    "startup": StartupKind(),
    "backend_prepare_pod": PrepareKind(),
    "backend_sync": SyncKind(),
    "children": ChildrenKind(),
    "lifecycle": LifecycleKind(),
}
