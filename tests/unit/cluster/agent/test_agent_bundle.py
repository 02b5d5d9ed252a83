"""Bundles: the root where overlays cannot be had, and programs that were entered."""

from __future__ import annotations

import os
import selectors
import signal
from pathlib import Path

import pytest

from quarterdeck.cluster.agent.shim import bundle
from quarterdeck.cluster.agent.shim.order import Bundle
from quarterdeck.cluster.agent.shim.outside import ready_keys


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


@pytest.mark.parametrize(
    ("namespace", "killed"), [("pid:[1]", [42]), ("pid:[2]", [])], ids=["inside", "elsewhere"]
)
def test_only_a_process_of_the_container_is_killed_for_an_entered_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespace: str, killed: list[int]
) -> None:
    """The number of a program that has ended may be another's by now, anywhere on the machine."""
    (tmp_path / "entered").mkdir()
    (tmp_path / "entered/7").write_text("42")
    (tmp_path / "pid").write_text("41")
    found: list[int] = []
    spaces = {"/proc/41/ns/pid": "pid:[1]", "/proc/42/ns/pid": namespace}
    monkeypatch.setattr(os, "readlink", spaces.__getitem__)
    monkeypatch.setattr(
        os, "kill", lambda pid, number: found.append(pid) if number == signal.SIGKILL else None
    )
    bundle.end_entered(tmp_path, 7)
    assert found == killed
    assert list((tmp_path / "entered").iterdir()) == []


def test_what_is_let_go_of_while_others_are_served_is_not_served() -> None:
    pipes = [os.pipe() for _ in range(3)]
    with selectors.DefaultSelector() as selector:
        for reading, writing in pipes:
            os.write(writing, b"x")
            selector.register(reading, selectors.EVENT_READ)
        served = []
        for key in ready_keys(selector, 0):
            served.append(key.fd)
            for reading, _ in pipes:
                if reading != key.fd:
                    selector.unregister(reading)
        assert len(served) == 1
        # One that is registered anew is another: it has its turn when it is asked for again.
        selector.register(
            next(reading for reading, _ in pipes if reading not in served), selectors.EVENT_READ
        )
        assert len(list(ready_keys(selector, 0))) == 2
    for descriptors in pipes:
        for descriptor in descriptors:
            os.close(descriptor)
