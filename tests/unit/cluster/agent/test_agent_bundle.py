"""The root of a container where overlays cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.cluster.agent.shim import bundle
from quarterdeck.cluster.agent.shim.order import Bundle


def refused(*_: object, **__: object) -> None:
    raise OSError(22, "Invalid argument")


def test_an_image_is_copied_where_it_cannot_be_overlaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, folder = tmp_path / "image", tmp_path / "run"
    (image / "bin").mkdir(parents=True, mode=0o755)
    (image / "bin/sh").write_bytes(b"a program")
    (image / "bin/sh").chmod(0o755)
    (image / "bin/link").symlink_to("sh")
    folder.mkdir()
    monkeypatch.setattr(bundle, "mount", refused)
    bundle._mount_root(folder, Bundle(program="crun", identity="x", image=str(image), config={}))
    root = folder / "rootfs"
    assert (root / "bin/sh").read_bytes() == b"a program"
    assert (root / "bin/sh").stat().st_mode & 0o777 == 0o755
    assert (root / "bin/link").readlink() == Path("sh")
    (root / "bin/sh").write_bytes(b"another")
    assert (image / "bin/sh").read_bytes() == b"a program", "what a container writes is its own"


def test_a_copy_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "mount", refused)
    image = tmp_path / "image"
    image.mkdir()
    (tmp_path / "run").mkdir()
    gone = Bundle(program="crun", identity="x", image=str(image), config={})
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/cp").write_text("#!/bin/sh\necho no space left >&2; exit 1\n")
    (tmp_path / "tools/cp").chmod(0o755)
    with pytest.raises(OSError, match="the image could not be copied: no space left"):
        bundle._mount_root(tmp_path / "run", gone)
