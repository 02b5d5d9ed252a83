"""``spec.cri``: the container runtime of a group."""

from __future__ import annotations

from typing import Annotated, Final

from quarterdeck.api import UNSET, Maybe, Model
from quarterdeck.api.marker import Enum, OneOf
from quarterdeck.operators.nodegroup.names import CRI_TYPES, OLD_CRI_TYPES

_EXACTLY_ONE_TYPE: Final = OneOf(*({"properties": {"type": {"enum": [name]}}} for name in CRI_TYPES))
"""Without ``type`` all branches match, so the type is in fact mandatory."""


class Containerd(Model):
    """Settings of containerd."""

    max_concurrent_downloads: Maybe[int] = UNSET
    """Parallel image downloads; 3 unless set."""


class Docker(Model):
    """Settings of Docker."""

    max_concurrent_downloads: Maybe[int] = UNSET
    """Parallel image downloads; 3 unless set."""
    manage: Maybe[bool] = UNSET
    """Whether Docker is installed and configured; true unless set."""


class NotManaged(Model):
    """A runtime that is managed outside of the cluster."""

    cri_socket_path: Maybe[str] = UNSET
    """Socket of a runtime that is managed outside of the cluster."""


class CriV1Alpha1(Model):
    """The container runtime."""

    type: Annotated[Maybe[str], Enum(*OLD_CRI_TYPES)] = UNSET
    """The container runtime."""
    containerd: Maybe[Containerd] = UNSET


class CriV1Alpha2(Model, rules=[_EXACTLY_ONE_TYPE]):
    """The container runtime."""

    type: Annotated[Maybe[str], Enum(*OLD_CRI_TYPES)] = UNSET
    """The container runtime."""
    containerd: Maybe[Containerd] = UNSET
    docker: Maybe[Docker] = UNSET
    not_managed: Maybe[NotManaged] = UNSET


class Cri(Model, rules=[_EXACTLY_ONE_TYPE]):
    """The container runtime; the cluster's default unless set."""

    type: Annotated[Maybe[str], Enum(*CRI_TYPES)] = UNSET
    """The container runtime: Docker, Containerd, ContainerdV2 or NotManaged."""
    containerd: Maybe[Containerd] = UNSET
    containerd_v2: Maybe[Containerd] = UNSET
    docker: Maybe[Docker] = UNSET
    not_managed: Maybe[NotManaged] = UNSET
