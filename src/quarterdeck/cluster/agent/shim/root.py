"""The container's view of the file system: the machine's folders, read-only, and the pod's own places.

The new root is a folder of the container. Each top-level folder of the machine is mounted into it, so ``/``
itself is the container's to write to, and so is ``/tmp``. A mount path that the machine does not have is made
without touching the machine: the folder that lacks it is opened up, which means replaced by a folder of the
container's in which everything of the original is mounted again.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from quarterdeck.cluster.agent.shim.linux import MS_BIND, MS_PRIVATE, MS_REC, make_read_only, mount, pivot_to
from quarterdeck.cluster.agent.shim.order import Bind, Launch

_OWN: Final = ("tmp",)
"""Top-level folders that each container has for itself."""
_LIVE: Final = ("dev", "proc")
"""Those that are not made read-only: what can be written there is not the disk."""
_LINK_LIMIT: Final = 40
_ROOT: Final = "root"
_OPENED: Final = "opened"


def enter_root(folder: Path, launch: Launch) -> None:
    """Make the container's root in ``folder`` the root of this mount namespace."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    root = _Root(folder / _ROOT, folder / _OPENED)
    root.take_over(launch.root, is_writable=launch.is_writable)
    if "pid" in launch.namespaces:
        root.own_processes()
    root.own_memory()
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    for path in launch.hidden:
        root.hide(path, str(empty))
    for bind in launch.binds:
        root.bind(bind)
    root.make_folder(launch.cwd)
    if launch.is_root_read_only:
        make_read_only(str(root.path), recursive=False)
    pivot_to(str(root.path))


def remove_root(folder: Path) -> None:
    """Take away what a container wrote to ``/`` and ``/tmp``: it has ended, and its mounts with it."""
    for name in (_ROOT, _OPENED):
        shutil.rmtree(folder / name, ignore_errors=True)


class _Root:
    def __init__(self, path: Path, opened: Path) -> None:
        self.path: Final = path
        self._opened: Final = opened
        self._count = 0
        self._areas: Final = {path: True}
        """Folders, each with what is below it as far as no other is there: whether things may be made in it.
        They may in the container's own and in volumes, and never in the machine's."""
        path.mkdir(exist_ok=True)
        opened.mkdir(exist_ok=True)
        mount(str(path), str(path), flags=MS_BIND)

    def take_over(self, origin: str, *, is_writable: bool) -> None:
        for entry in os.scandir(origin):
            target = self.path / entry.name
            if entry.name in _OWN:
                continue
            _copy_entry(entry, target)
            self._areas[target] = False
            if entry.is_symlink() or is_writable or entry.name in _LIVE:
                continue
            make_read_only(str(target), recursive=True)
        for name in _OWN:
            folder = self.path / name
            folder.mkdir(exist_ok=True)
            folder.chmod(0o1777)
            self._areas[folder] = True
        for name in _LIVE:  # an image's root folder has them empty
            (self.path / name).mkdir(exist_ok=True)
            if origin != "/":
                mount(f"/{name}", str(self.path / name), flags=MS_BIND | MS_REC)
        if origin == "/":
            for place in _hidden_installation():
                self.bind(Bind(source=place, target=place, read_only=True))

    def own_processes(self) -> None:
        try:
            mount("proc", str(self.path / "proc"), "proc")
        except OSError:
            # Where the machine hides parts of its own /proc the kernel refuses; the machine's must do.
            return

    def own_memory(self) -> None:
        target = self.path / "dev" / "shm"
        if target.is_dir():
            mount("shm", str(target), "tmpfs", options="mode=1777,size=64m")
            self._areas[target] = True

    def hide(self, path: str, empty: str) -> None:
        place = self._inside(path)
        if place.is_dir() and not place.is_symlink():
            mount(empty, str(place), flags=MS_BIND)
            make_read_only(str(place), recursive=False)

    def bind(self, bind: Bind) -> None:
        is_folder = os.path.isdir(bind.source)
        target = self._make(bind.target, is_folder=is_folder)
        mount(bind.source, str(target), flags=MS_BIND | MS_REC)
        self._areas[target] = True
        if bind.read_only:
            make_read_only(str(target), recursive=False)

    def make_folder(self, path: str) -> None:
        with suppress(OSError):  # a program that cannot go there says so itself
            self._make(path, is_folder=True)

    def _inside(self, path: str) -> Path:
        return self.path / path.lstrip("/")

    def _make(self, target: str, *, is_folder: bool) -> Path:
        """Where a path leads, made if it is not there; links are followed inside the root only."""
        here, parts, links = self.path, [part for part in target.split("/") if part], 0
        while parts:
            part = parts.pop(0)
            if part == ".":
                continue
            if part == "..":
                here = here if here == self.path else here.parent
                continue
            step = here / part
            if step.is_symlink():
                links += 1
                if links > _LINK_LIMIT:
                    raise OSError(40, f"too many symbolic links in {target}")
                to = os.readlink(step)
                here = self.path if to.startswith("/") else here
                parts = [each for each in to.split("/") if each] + parts
                continue
            if not step.exists():
                self._create(step, target, is_folder=is_folder or bool(parts))
            here = step
        return here

    def _create(self, step: Path, target: str, *, is_folder: bool) -> None:
        if self._may_make_in(step.parent):
            with suppress(OSError):  # a volume may be read-only
                _touch(step, is_folder=is_folder)
                return
        self._open_up(step.parent)
        try:
            _touch(step, is_folder=is_folder)
        except OSError as error:
            raise OSError(error.errno, f"mount path {target} cannot be made: {error.strerror}") from error

    def _may_make_in(self, folder: Path) -> bool:
        return next(self._areas[each] for each in (folder, *folder.parents) if each in self._areas)

    def _open_up(self, folder: Path) -> None:
        """Replace a folder of the machine by one of ours with the same things in it."""
        self._count += 1
        copy = self._opened / str(self._count)
        copy.mkdir(exist_ok=True)
        is_dev = folder == self.path / "dev"
        if is_dev:  # not on the disk, which may allow no devices
            mount("opened", str(copy), "tmpfs", options="mode=755,size=1m")
        else:
            mount(str(copy), str(copy), flags=MS_BIND)
        self._areas[folder] = True
        for entry in os.scandir(folder):
            if not (is_dev and entry.name == "ptmx" and _make_terminals(copy / entry.name)):
                _copy_entry(entry, copy / entry.name)
            self._areas.setdefault(folder / entry.name, False)
        copy.chmod(folder.stat().st_mode & 0o7777)
        mount(str(copy), str(folder), flags=MS_BIND | MS_REC)


def _hidden_installation() -> list[str]:
    """Where this Python and this package are, if that is a folder which containers have for themselves.

    Who tries us in a temporary folder wants to run programs of it.
    """
    places = {sys.prefix, sys.base_prefix, str(Path(__file__).parents[4])}
    return sorted(place for place in places if Path(place).parts[1:2] and Path(place).parts[1] in _OWN)


def _make_terminals(path: Path) -> bool:
    """Make the device that gives terminals; whether we may.

    It looks for its terminals beside itself, and does not find them from where another one is mounted.
    """
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(5, 2))
    except PermissionError:
        return False
    path.chmod(0o666)
    return True


def _copy_entry(entry: os.DirEntry[str], target: Path) -> None:
    """Let ``target`` be the same thing as an entry of another folder."""
    if entry.is_symlink():
        if not target.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        return
    _touch(target, is_folder=entry.is_dir(follow_symlinks=False))
    mount(entry.path, str(target), flags=MS_BIND | MS_REC)


def _touch(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        path.mkdir(exist_ok=True)
    else:
        path.touch(exist_ok=True)
