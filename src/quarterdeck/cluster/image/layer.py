"""One layer of an image onto a root folder. Blocking.

A layer is a tar stream from somebody else. Whatever its entries are called and whatever links it brings,
nothing outside the root folder is written, linked to or removed: paths are followed link by link inside the
root, as the program of the container would follow them. Nobody else writes to the folder meanwhile.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from quarterdeck.cluster.image.document import ImageError

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_LINK_LIMIT: Final = 40
_CHUNK: Final = 1024 * 1024
_ATTRIBUTE: Final = "SCHILY.xattr."


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes: ...


def apply_layer(stream: Readable, root: Path) -> None:
    """Change ``root`` as an uncompressed layer says. Raises ``ImageError`` for one that cannot be read."""
    source: Any = stream  # a tar stream is only read from, forwards
    try:
        with tarfile.open(fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
            layer = _Layer(root)
            for member in archive:
                layer.take(archive, member)
            layer.finish()
    except tarfile.TarError as error:
        raise ImageError(f"a layer is not a tar archive: {error}") from error


class _Layer:
    def __init__(self, root: Path) -> None:
        self._root: Final = root
        self._made: Final[set[Path]] = set()
        """What this layer has brought: an opaque folder hides only what was there before."""
        self._times: Final[list[tuple[Path, int]]] = []
        self._is_root: Final = os.geteuid() == 0

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = _parts(member.name)
        if not parts:
            if member.isdir():
                self._set_attributes(self._root, member)
            return
        folder = self._folder(parts[:-1], member.name)
        name = parts[-1]
        if name == _OPAQUE:
            self._clear(folder)
        elif name.startswith(_WHITEOUT):
            hidden = name[len(_WHITEOUT) :]
            if hidden in ("", ".", ".."):
                raise ImageError(f"{member.name!r} hides nothing that could be there")
            _remove(folder / hidden)
        else:
            self._make(archive, member, folder / name)

    def finish(self) -> None:
        """Folders get their times last: writing into them changes these."""
        for path, seconds in reversed(self._times):
            with suppress(OSError):
                os.utime(path, (seconds, seconds), follow_symlinks=False)

    def _folder(self, parts: list[str], name: str) -> Path:
        """The folder that a path leads to inside the root, made if it is not there."""
        here, left, links = self._root, list(parts), 0
        while left:
            part = left.pop(0)
            if part == "..":
                here = here if here == self._root else here.parent
                continue
            step = here / part
            if step.is_symlink():
                links += 1
                if links > _LINK_LIMIT:
                    raise ImageError(f"{name!r}: too many symbolic links")
                target = os.readlink(step)
                here = self._root if target.startswith("/") else here
                left = [each for each in target.split("/") if each not in ("", ".")] + left
                continue
            if not step.is_dir():
                _remove(step)
                step.mkdir(mode=0o755)
                self._made.add(step)
            here = step
        return here

    def _clear(self, folder: Path) -> None:
        for entry in list(os.scandir(folder)):
            path = Path(entry.path)
            if path not in self._made:
                _remove(path)
            elif entry.is_dir(follow_symlinks=False):
                self._clear(path)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        if not (member.isdir() and path.is_dir() and not path.is_symlink()):
            _remove(path)
        if member.isdir():
            path.mkdir(exist_ok=True)
        elif member.isreg():
            self._write(archive, member, path)
        elif member.issym():
            os.symlink(member.linkname, path)
        elif member.islnk():
            self._link(member, path)
        elif member.isfifo():
            os.mkfifo(path)
        elif member.ischr() or member.isblk():
            if not self._is_root:
                return  # a container without rights cannot use it either
            kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
            os.mknod(path, kind | 0o600, os.makedev(member.devmajor, member.devminor))
        else:
            raise ImageError(f"{member.name!r} is of a kind that no file has")
        self._made.add(path)
        if not member.islnk():
            self._set_attributes(path, member)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        source = archive.extractfile(member)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            if source is not None:
                shutil.copyfileobj(source, file, _CHUNK)

    def _link(self, member: tarfile.TarInfo, path: Path) -> None:
        parts = _parts(member.linkname)
        if not parts:
            raise ImageError(f"{member.name!r} is a link to nothing")
        target = self._folder(parts[:-1], member.linkname) / parts[-1]
        try:
            os.link(target, path, follow_symlinks=False)
        except OSError as error:
            text = f"{member.name!r} is a link to {member.linkname!r}: {error.strerror}"
            raise ImageError(text) from error

    def _set_attributes(self, path: Path, member: tarfile.TarInfo) -> None:
        if self._is_root:
            os.chown(path, member.uid, member.gid, follow_symlinks=False)
        if not member.issym():
            os.chmod(path, member.mode & 0o7777)  # after the owner: changing that clears bits
            for key, value in member.pax_headers.items():
                if key.startswith(_ATTRIBUTE) and self._is_root:
                    with suppress(OSError):  # not every file system has them
                        name = key[len(_ATTRIBUTE) :]
                        os.setxattr(path, name, value.encode("utf-8", "surrogateescape"))
        self._times.append((path, int(member.mtime)))


def _parts(name: str) -> list[str]:
    """The steps of a path; what leads out of the root is refused."""
    parts = [each for each in name.split("/") if each not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise ImageError(f"{name!r} leads out of the image")
    return parts


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        with suppress(FileNotFoundError):
            path.unlink()
    else:
        shutil.rmtree(path)
