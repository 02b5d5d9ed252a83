"""The images of a user: names, configurations, and the unpacked files. Blocking.

    <store>/images.json          what there is
    <store>/config/<id>.json     configurations, by digest
    <store>/root/<id>/           files, as the layers make them
    <store>/root/<id>.lock       held, shared, by everything that runs from there

One process at a time changes it; readers see the list before or after.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.cluster.image.archive import FoundImage, find_images, opened
from quarterdeck.cluster.image.document import ImageConfig, ImageError, Platform, decode, digest_of
from quarterdeck.cluster.image.name import full_name

_LIST: Final = "images.json"
_LOCK: Final = "lock"


class StoredImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image that was imported."""

    id: str
    """The digest of its configuration."""
    digest: str
    """The digest of its manifest."""
    names: tuple[str, ...] = ()
    """In full: with registry and tag."""
    platform: str = ""
    size: int = 0
    """Bytes of its files."""
    imported: float = 0.0


def default_store(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the user's images are."""
    home = Path(environment.get("HOME", "~")).expanduser()
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "quarterdeck" / "images"


class ImageStore:
    """The images in a folder."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path

    def images(self) -> list[StoredImage]:
        """All of them, by name."""
        try:
            data = (self.path / _LIST).read_bytes()
        except FileNotFoundError:
            return []
        found = decode(data, list[StoredImage], str(self.path / _LIST))
        return sorted(found, key=lambda each: (each.names, each.id))

    def find(self, wanted: str) -> StoredImage | None:
        """An image by name, by name and digest, or by its id (12 digits suffice)."""
        name, _, digest = wanted.partition("@")
        whole = full_name(name)
        for each in self.images():
            if digest and digest in (each.digest, each.id):
                return each
            if not digest and (whole in each.names or _is_id(wanted, each)):
                return each
        return None

    def config(self, image: StoredImage) -> ImageConfig:
        """What an image says of itself. Raises ``ImageError`` if that is not what was imported."""
        path = self.path / "config" / f"{_hex(image)}.json"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ImageError(f"image {image.id}: {error}") from error
        if digest_of(data) != image.id:
            raise ImageError(f"image {image.id}: {path} has been changed; import the image again")
        return decode(data, ImageConfig, str(path))

    def root(self, image: StoredImage) -> Path:
        """The folder with an image's files."""
        return self.path / "root" / _hex(image)

    @contextmanager
    def held(self, image: StoredImage) -> Iterator[None]:
        """Keep an image's files from being removed."""
        with (self.path / "root" / f"{_hex(image)}.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def import_file(self, path: Path, platform: Platform, names: Sequence[str] = ()) -> list[StoredImage]:
        """Take in the images of a file; ``names`` take the place of its own, if it holds one image.

        Raises ``ImageError``.
        """
        with opened(path) as files, self._changing():
            found = find_images(files, platform)
            if names and len(found) > 1:
                raise ImageError(f"{path} holds {len(found)} images; a name can be given to one only")
            return [self._take_in(each, tuple(names) or each.names, platform) for each in found]

    def remove(self, wanted: str) -> StoredImage:
        """Forget a name; with the last one, or by id, the image goes.

        Raises ``ImageError`` for images that are not there, or from which something runs.
        """
        with self._changing():
            image = self.find(wanted)
            if image is None:
                raise ImageError(f"there is no image {wanted}")
            name = full_name(wanted.partition("@")[0])
            left = tuple(each for each in image.names if each != name)
            if left == image.names:
                left = ()
            others = [each for each in self.images() if each.id != image.id]
            if left:
                kept = msgspec.structs.replace(image, names=left)
                self._write([*others, kept])
                return image
            self._remove_files(image)
            self._write(others)
            return image

    def _take_in(self, found: FoundImage, names: tuple[str, ...], platform: Platform) -> StoredImage:
        known = self.images()
        whole = tuple(sorted({full_name(each) for each in names}))
        before = next((each for each in known if each.id == found.id), None)
        if before is not None:
            image = msgspec.structs.replace(before, names=tuple(sorted({*before.names, *whole})))
        else:
            size = self._unpack(found)
            image = StoredImage(
                id=found.id,
                digest=found.digest,
                names=whole,
                platform=str(found.config.platform if found.config.architecture else platform),
                size=size,
                imported=time.time(),
            )
        others = []
        for each in known:
            if each.id == image.id:
                continue
            # A name belongs to the image that was imported last.
            kept = tuple(name for name in each.names if name not in image.names)
            others.append(msgspec.structs.replace(each, names=kept))
        self._write([*others, image])
        return image

    def _unpack(self, found: FoundImage) -> int:
        roots, configs = self.path / "root", self.path / "config"
        for folder in (roots, configs):
            folder.mkdir(exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".new-", dir=roots))
        try:
            place.chmod(0o755)
            found.unpack(place)
            target = roots / found.id.removeprefix("sha256:")
            if target.exists():
                shutil.rmtree(target)
            _write(configs / f"{target.name}.json", found.raw_config)
            (roots / f"{target.name}.lock").touch(mode=0o644)
            place.rename(target)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return _size(target)

    def _remove_files(self, image: StoredImage) -> None:
        lock = self.path / "root" / f"{_hex(image)}.lock"
        with suppress(FileNotFoundError), lock.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                name = image.names[0] if image.names else image.id
                raise ImageError(f"containers run from {name}; end their pods first") from error
            lock.unlink()
        shutil.rmtree(self.root(image), ignore_errors=True)
        (self.path / "config" / f"{_hex(image)}.json").unlink(missing_ok=True)

    def _write(self, images: Iterable[StoredImage]) -> None:
        _write(self.path / _LIST, msgspec.json.format(msgspec.json.encode(list(images)), indent=1))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o755)
        with (self.path / _LOCK).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_id(wanted: str, image: StoredImage) -> bool:
    digits = wanted.removeprefix("sha256:")
    return len(digits) >= 12 and _hex(image).startswith(digits)


def _hex(image: StoredImage) -> str:
    return image.id.removeprefix("sha256:")


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _size(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total
