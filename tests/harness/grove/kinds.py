"""The kinds of grove cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.harness.registry import Kind

from .admission import AdmissionKind, AuthorizerKind
from .backend import PrepareKind, SyncKind
from .life import ChildrenKind, LifecycleKind
from .start import ConfigKind, StartupKind

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
