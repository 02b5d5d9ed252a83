"""Files that hold images: OCI layouts and ``docker save`` archives, as folders or tar files. Blocking.

Every part is verified against its digest before it counts.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol

import msgspec

from quarterdeck.cluster.image.document import (
    Descriptor,
    DockerEntry,
    ImageConfig,
    ImageError,
    Index,
    Manifest,
    Platform,
    decode,
    digest_of,
)
from quarterdeck.cluster.image.layer import Readable, apply_layer
from quarterdeck.errors import reason_of

_LAYOUT: Final = "oci-layout"
_INDEX: Final = "index.json"
_DOCKER: Final = "manifest.json"
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_DOCUMENT_LIMIT: Final = 16 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class Files(Protocol):
    """A folder, or a tar file that stands for one."""

    def has(self, name: str) -> bool: ...
    def open(self, name: str) -> IO[bytes]: ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path: Final = path

    def has(self, name: str) -> bool:
        return (self._path / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        try:
            return (self._path / name).open("rb")
        except OSError as error:
            raise ImageError(f"{name} is not in it: {error.strerror}") from error


class _Archive:
    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive: Final = archive
        self._members: Final = {each.name.removeprefix("./"): each for each in archive.getmembers()}

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        for _ in range(8):  # old archives have links from one layer to the same one elsewhere
            if member is None or not (member.issym() or member.islnk()):
                break
            parts = (
                f"{member.name.rpartition('/')[0]}/{member.linkname}" if member.issym() else member.linkname
            )
            member = self._members.get(_normal(parts))
        source = self._archive.extractfile(member) if member is not None else None
        if source is None:
            raise ImageError(f"{name} is not in it")
        return source


class FoundImage(NamedTuple):
    """An image in a file; its layers have not been looked at yet."""

    names: tuple[str, ...]
    digest: str
    """Of the manifest."""
    id: str
    """The digest of the configuration."""
    config: ImageConfig
    raw_config: bytes
    layers: tuple[tuple[str, Descriptor | None], ...]
    """Files in the archive, lowest first, with what they must be."""
    files: Files

    def unpack(self, root: Path) -> None:
        """Make the image's files in an empty folder. Raises ``ImageError``."""
        wanted = self.config.rootfs.diff_ids
        if len(wanted) != len(self.layers):
            raise ImageError(f"the configuration names {len(wanted)} layers, the manifest {len(self.layers)}")
        for (name, descriptor), content in zip(self.layers, wanted, strict=True):
            with self.files.open(name) as raw:
                packed = _Hashing(raw)
                unpacked = _Hashing(_decompressed(packed, name))
                apply_layer(unpacked, root)
                unpacked.drain()
                packed.drain()
            if descriptor is not None:
                _check(name, packed, descriptor)
            if unpacked.digest != content:
                raise ImageError(f"layer {name} has the content {unpacked.digest}, not {content}")


@contextmanager
def opened(path: Path) -> Iterator[Files]:
    """The files of a layout or an archive. Raises ``ImageError`` for what is neither."""
    if path.is_dir():
        yield _Folder(path)
        return
    try:
        with tarfile.open(path) as archive:
            yield _Archive(archive)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ImageError(f"{path}: {reason_of(error)}") from error


def find_images(files: Files, platform: Platform) -> list[FoundImage]:
    """The images for a platform. Raises ``ImageError`` if there is none, and says which there are."""
    if files.has(_INDEX) and files.has(_LAYOUT):
        return _from_layout(files, platform)
    if files.has(_DOCKER):
        return _from_docker(files, platform)
    raise ImageError(
        "it is no OCI layout (oci-layout, index.json), and not made by docker save (manifest.json)"
    )


def _from_layout(files: Files, platform: Platform) -> list[FoundImage]:
    index = decode(_read(files, _INDEX), Index, _INDEX)
    found: list[FoundImage] = []
    others: list[str] = []
    for descriptor in index.manifests:
        names = _names_in(descriptor)
        chosen = _choose(files, descriptor, platform, others)
        if chosen is not None:
            found.append(chosen._replace(names=names))
    if not found:
        raise ImageError(
            f"no image for {platform}; there is {', '.join(sorted(set(others))) or 'none at all'}"
        )
    return found


def _names_in(descriptor: Descriptor) -> tuple[str, ...]:
    """The image's names; a reference that is only a tag names nothing by itself."""
    names = [descriptor.annotations[key] for key in _NAMES if key in descriptor.annotations]
    whole = [name for name in names if "/" in name or ":" in name]
    return (whole[0],) if whole else ()


def _choose(files: Files, descriptor: Descriptor, platform: Platform, others: list[str]) -> FoundImage | None:
    """The image behind a descriptor that fits the platform; indexes may hold indexes."""
    if descriptor.platform is not None and not descriptor.platform.fits(platform):
        others.append(str(descriptor.platform))
        return None
    name = f"blobs/sha256/{descriptor.hex}"
    data = _read(files, name, descriptor)
    kind = descriptor.media_type
    is_index = "index" in kind or "manifest.list" in kind or (not kind and b'"manifests"' in data)
    if is_index:
        for inner in decode(data, Index, name).manifests:
            found = _choose(files, inner, platform, others)
            if found is not None:
                return found
        return None
    manifest = decode(data, Manifest, name)
    raw = _read(files, f"blobs/sha256/{manifest.config.hex}", manifest.config)
    config = decode(raw, ImageConfig, manifest.config.digest)
    if config.architecture and not config.platform.fits(platform):
        others.append(str(config.platform))
        return None
    layers = tuple((f"blobs/sha256/{each.hex}", each) for each in manifest.layers)
    return FoundImage((), descriptor.digest, manifest.config.digest, config, raw, layers, files)


def _from_docker(files: Files, platform: Platform) -> list[FoundImage]:
    entries = decode(_read(files, _DOCKER), tuple[DockerEntry, ...], _DOCKER)
    found: list[FoundImage] = []
    others: list[str] = []
    for entry in entries:
        raw = _read(files, entry.config)
        identity = digest_of(raw)
        named = entry.config.rpartition("/")[2].removesuffix(".json")
        if len(named) == 64 and identity != f"sha256:{named}":
            raise ImageError(f"{entry.config} has the content {identity}")
        config = decode(raw, ImageConfig, entry.config)
        if config.architecture and not config.platform.fits(platform):
            others.append(str(config.platform))
            continue
        # It has no manifest of its own; the one it would have says what it is.
        manifest = msgspec.json.encode({"config": identity, "layers": config.rootfs.diff_ids})
        layers = tuple((name, None) for name in entry.layers)
        names = tuple(entry.repo_tags or ())
        found.append(FoundImage(names, digest_of(manifest), identity, config, raw, layers, files))
    if not found:
        raise ImageError(
            f"no image for {platform}; there is {', '.join(sorted(set(others))) or 'none at all'}"
        )
    return found


def _read(files: Files, name: str, descriptor: Descriptor | None = None) -> bytes:
    with files.open(name) as file:
        data = file.read(_DOCUMENT_LIMIT + 1)
    if len(data) > _DOCUMENT_LIMIT:
        raise ImageError(f"{name} is larger than {_DOCUMENT_LIMIT} bytes")
    if descriptor is not None:
        source = _Hashing(io.BytesIO(data))
        source.drain()
        _check(name, source, descriptor)
    return data


def _check(name: str, source: _Hashing, descriptor: Descriptor) -> None:
    if source.digest != descriptor.digest:
        raise ImageError(f"{name} has the content {source.digest}, not {descriptor.digest}")
    if descriptor.size not in (-1, source.size):
        raise ImageError(f"{name} has {source.size} bytes, not {descriptor.size}")


def _decompressed(source: _Hashing, name: str) -> Readable:
    start = source.peek(4)
    if start.startswith(b"\x1f\x8b"):
        packed: Any = source  # it is only read from, forwards
        return gzip.GzipFile(mode="rb", fileobj=packed)
    if start == _ZSTD:
        raise ImageError(f"layer {name} is compressed with zstd, which is not read here: save it with gzip")
    return source


class _Hashing:
    """Reads another stream, and knows what it has read."""

    def __init__(self, source: Readable) -> None:
        self._source: Final = source
        self._hash: Final = hashlib.sha256()
        self._ahead = b""
        self.size = 0

    def peek(self, size: int) -> bytes:
        """The first bytes, which are still to be read."""
        self._ahead = self._source.read(size)
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead, b""
            if size < 0:
                data += self._source.read()
            elif len(data) > size:
                data, self._ahead = data[:size], data[size:]
        else:
            try:
                data = self._source.read(size)
            except (OSError, EOFError, zlib.error) as error:
                raise ImageError(f"a layer cannot be unpacked: {error}") from error
        self._hash.update(data)
        self.size += len(data)
        return data

    def drain(self) -> None:
        """Read what nobody wanted."""
        while self.read(_CHUNK):
            pass

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
