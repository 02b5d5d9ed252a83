"""Versions of the contract, and the way from one major version to the next.

A backend says which version it was written for (``interface_version``); one that does not is taken for one
of the present. Whatever the minor version, it fits within its major one. When a major version comes, the one
before is still taken until the next: ``Interface.earlier`` has what makes a backend of the old form one of
the new, and whoever runs such a backend is told, in the log, by an event and by ``check-config``. There has
been one major version so far, so there is nothing in it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from .contract import INTERFACE_VERSION, Interfaced, SchedulerBackend
from .error import BackendError

Adapter: TypeAlias = Callable[[Any], SchedulerBackend]
"""Makes a backend of an earlier major version one of the present, its optional capabilities included."""


class Interface(msgspec.Struct, frozen=True):
    """The contract that an operator keeps."""

    version: str = INTERFACE_VERSION
    earlier: Mapping[str, Adapter] = {}
    """By major version (``"1"``), those that are still taken."""

    def accept(self, backend: Any) -> tuple[SchedulerBackend, str]:
        """The backend in the present form, and a notice if its own is an earlier one.

        Raises ``BackendError`` if it is written for a contract that is not kept.
        """
        wanted = str(backend.interface_version if isinstance(backend, Interfaced) else self.version)
        major, present = _major(wanted), _major(self.version)
        if major == present:
            return backend, ""
        text = (
            f"backend {backend.name} is written for version {wanted} of the interface, this is {self.version}"
        )
        adapt = self.earlier.get(major)
        if adapt is None:
            raise BackendError(text)
        return adapt(backend), f"{text}: the next major version will refuse it"


def _major(version: str) -> str:
    return version.partition(".")[0]


INTERFACE: Final = Interface()
