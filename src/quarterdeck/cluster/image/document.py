"""The JSON of images: indexes, manifests, configurations. Pure."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.errors import QuarterdeckError

_DIGEST: Final = re.compile(r"^sha256:[0-9a-f]{64}$")
T = TypeVar("T")
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class ImageError(QuarterdeckError):
    """A file that is no image, or not one for this machine; the text says which part and why."""


class Platform(msgspec.Struct, frozen=True):
    """What an image runs on."""

    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)

    def fits(self, wanted: Platform) -> bool:
        """Whether an image for this runs where ``wanted`` is; a variant counts only if both name one."""
        is_same = (self.os, self.architecture) == (wanted.os, wanted.architecture)
        return is_same and (not (self.variant and wanted.variant) or self.variant == wanted.variant)


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """Where a part of an image is: by the digest of its content."""

    digest: str
    media_type: str = ""
    size: int = -1
    platform: Platform | None = None
    annotations: Mapping[str, str] = EMPTY_MAP

    @property
    def hex(self) -> str:
        """The digest without its kind; raises ``ImageError`` for one that cannot be verified."""
        if not _DIGEST.match(self.digest):
            raise ImageError(f"{self.digest!r} is not a digest of kind sha256")
        return self.digest[7:]


class Index(msgspec.Struct, frozen=True, rename="camel"):
    """Several images, or one for several platforms."""

    manifests: tuple[Descriptor, ...]
    media_type: str = ""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """One image: its configuration and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...] = ()


class DockerEntry(msgspec.Struct, frozen=True, rename="pascal"):
    """One image of a ``docker save`` archive."""

    config: str
    layers: tuple[str, ...] = ()
    repo_tags: tuple[str, ...] | None = None


class _Execution(msgspec.Struct, frozen=True, rename="pascal"):
    user: str = ""
    env: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    working_dir: str = ""
    stop_signal: str = ""


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: tuple[str, ...] = ()


class ImageConfig(msgspec.Struct, frozen=True):
    """What an image says of itself."""

    os: str = "linux"
    architecture: str = ""
    variant: str = ""
    config: _Execution = _Execution()
    rootfs: _RootFs = _RootFs()

    @property
    def platform(self) -> Platform:
        return Platform(self.os, self.architecture, self.variant)

    @property
    def command(self) -> list[str]:
        """The entry point."""
        return list(self.config.entrypoint or ())

    @property
    def arguments(self) -> list[str]:
        """What the entry point is given."""
        return list(self.config.cmd or ())

    @property
    def environment(self) -> dict[str, str]:
        pairs = (each.partition("=") for each in self.config.env or ())
        return {name: value for name, _, value in pairs}


def decode(data: bytes, kind: type[T], what: str) -> T:
    """Read one of these documents; ``what`` says in an error where it came from."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ImageError(f"{what}: {error}") from error


def digest_of(data: bytes) -> str:
    """The digest of a content."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def this_platform() -> Platform:
    """What this machine runs."""
    machine = platform.machine()
    return Platform("linux", _MACHINES.get(machine, machine))
