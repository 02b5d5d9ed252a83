"""Images from files: what is taken in, what is refused, and where its files go."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from quarterdeck.cli.main import main
from quarterdeck.cluster.image.document import ImageError, Platform, this_platform
from quarterdeck.cluster.image.name import full_name, name_problem
from quarterdeck.cluster.image.store import ImageStore, StoredImage
from tests.harness.imagekit import Entry, docker_archive, layer, oci_layout, packed

HERE = str(this_platform())


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store")


def take_in(store: ImageStore, tmp_path: Path, *layers: dict[str, Entry]) -> StoredImage:
    """Import an image that has these layers."""
    file = tmp_path / "image.tar"
    docker_archive(file, "box:1", [layer(each) for each in layers], platform=HERE)
    [image] = store.import_file(file, this_platform())
    return image


def files(store: ImageStore, image: StoredImage) -> set[str]:
    root = store.root(image)
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("is_archive", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_layout_gives_the_image_of_this_platform(
    store: ImageStore, tmp_path: Path, is_archive: bool, nested: bool
) -> None:
    platforms = {"linux/other": [layer({"other": b""})], HERE: [layer({"bin": ("dir", 0), "bin/tool": b"x"})]}
    source = tmp_path / "layout"
    oci_layout(source, "example.org/tool:2", platforms, execution={"Cmd": ["/bin/tool"]}, nested=nested)
    if is_archive:
        packed(source, source := tmp_path / "layout.tar")
    [image] = store.import_file(source, this_platform())
    assert image.names == ("example.org/tool:2",)
    assert image.platform == HERE
    assert files(store, image) == {"bin", "bin/tool"}
    assert store.config(image).arguments == ["/bin/tool"]
    assert store.find("example.org/tool:2") == image
    assert store.find(f"example.org/tool@{image.digest}") == image
    assert store.find(image.id[7:19]) == image
    [other] = store.import_file(source, Platform("linux", "other"), ["other"])
    assert other.names == ("docker.io/library/other:latest",)


def test_a_platform_that_is_not_there_is_told_with_those_that_are(store: ImageStore, tmp_path: Path) -> None:
    oci_layout(tmp_path / "layout", "x:1", {"linux/one": [], "linux/two": []})
    with pytest.raises(ImageError, match=f"no image for {HERE}; there is linux/one, linux/two"):
        store.import_file(tmp_path / "layout", this_platform())


def test_layers_replace_and_hide_what_is_below(store: ImageStore, tmp_path: Path) -> None:
    image = take_in(
        store,
        tmp_path,
        {
            "etc": ("dir", 0),
            "etc/old": b"1",
            "etc/kept": b"1",
            "var/log/a": b"1",
            "var/log/deep/b": b"1",
            "lib": "usr/lib",
            "usr/lib": ("dir", 0),
            "swap": ("dir", 0),
            "swap/inner": b"",
        },
        {
            "etc/.wh.old": b"",
            "var/log/new": b"2",
            "var/log/.wh..wh..opq": b"",
            "lib/added": b"2",
            "swap": b"now a file",
            "etc/twin": ("hard", "etc/kept"),
        },
    )
    root = store.root(image)
    assert files(store, image) == {
        "etc", "etc/kept", "etc/twin", "var", "var/log", "var/log/new", "lib", "usr", "usr/lib",
        "usr/lib/added", "swap",
    }  # fmt: skip
    assert (root / "lib").is_symlink()
    assert (root / "etc" / "twin").stat().st_ino == (root / "etc" / "kept").stat().st_ino


@pytest.mark.parametrize(
    "entries",
    [
        {"../outside": b"x"},
        {"a/../../outside": b"x"},
        {"out": "..", "out/../../outside": b"x"},
        {"twin": ("hard", "../../outside")},
        {".wh...": b""},
    ],
)
def test_paths_that_lead_out_are_refused(
    store: ImageStore, tmp_path: Path, entries: dict[str, Entry]
) -> None:
    (tmp_path / "outside").write_text("untouched")
    with pytest.raises(ImageError):
        take_in(store, tmp_path, entries)
    assert (tmp_path / "outside").read_text() == "untouched"
    assert store.images() == []
    assert [each.name for each in (store.path / "root").iterdir()] == []


def test_links_are_followed_inside_the_image_only(store: ImageStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "secret").write_text("s")
    image = take_in(
        store,
        tmp_path,
        {
            "absolute": str(target),
            "absolute/planted": b"x",
            "up": "../../../../../..",
            "up/planted": b"x",
            "loose": str(target / "secret"),
            "loose ": ("hard", "loose"),
        },
        {"loose": b"replaced", "absolute/.wh.secret": b""},
    )
    assert sorted(each.name for each in target.iterdir()) == ["secret"]
    root = store.root(image)
    assert (root / str(target).lstrip("/") / "planted").read_bytes() == b"x"
    assert (root / "planted").read_bytes() == b"x"
    assert (root / "loose").read_bytes() == b"replaced"
    assert (target / "secret").read_text() == "s"


def test_modes_and_owners_are_kept(store: ImageStore, tmp_path: Path) -> None:
    image = take_in(store, tmp_path, {"tool": ("file", (b"x", 0o4755, 12)), "pipe": ("fifo", 0)})
    found = (store.root(image) / "tool").stat()
    assert found.st_mode & 0o7777 == 0o4755
    if os.geteuid() == 0:
        assert found.st_uid == 12


def test_content_that_is_not_what_its_digest_says_is_refused(store: ImageStore, tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    oci_layout(folder, "x:1", {HERE: [layer({"a": b"1"})]}, execution={"Cmd": ["a"]})
    blobs = sorted((folder / "blobs" / "sha256").iterdir())
    for blob in blobs:
        data = blob.read_bytes()
        blob.write_bytes(data.replace(b"sha256", b"sha257") if b"sha256" in data else data[:-1] + b"?")
        with pytest.raises(ImageError):
            store.import_file(folder, this_platform())
        blob.write_bytes(data)
    assert store.images() == []
    assert len(store.import_file(folder, this_platform())) == 1


@pytest.mark.parametrize("content", [b"", b"no archive", layer({"some": b"file"})])
def test_other_files_are_refused(store: ImageStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ImageError):
        store.import_file(tmp_path / "file", this_platform())


def test_a_name_belongs_to_the_image_imported_last(store: ImageStore, tmp_path: Path) -> None:
    first = take_in(store, tmp_path, {"one": b""})
    second = take_in(store, tmp_path, {"two": b""})
    assert store.find("box:1") == second
    assert [each.names for each in store.images() if each.id == first.id] == [()]


def test_an_image_in_use_is_not_removed(store: ImageStore, tmp_path: Path) -> None:
    image = take_in(store, tmp_path, {"one": b""})
    with (store.path / "root" / f"{image.id[7:]}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(ImageError, match="containers run from docker"):
            store.remove("box:1")
    store.remove("box:1")
    assert store.images() == []
    assert list((store.path / "root").iterdir()) == []


def test_the_command_imports_lists_and_removes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    oci_layout(tmp_path / "layout", "latest", {HERE: [layer({"a": b"1"})]})
    assert main(["image", "import", str(tmp_path / "layout"), "--name", "a", "--name", "b.io/c:2"]) == 0
    assert main(["image", "list"]) == 0
    out = capsys.readouterr().out
    assert "docker.io/library/a:latest" in out
    assert "b.io/c:2" in out
    assert main(["image", "remove", "a"]) == 0
    assert main(["image", "remove", "a"]) == 1
    assert "there is no image a" in capsys.readouterr().err
    assert main(["image", "import", str(tmp_path / "layout"), "--platform", "linux"]) == 1
    assert [each.names for each in ImageStore(tmp_path / "quarterdeck" / "images").images()] == [
        ("b.io/c:2",)
    ]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("python", "docker.io/library/python:latest"),
        ("me/tool:1", "docker.io/me/tool:1"),
        ("localhost/x", "localhost/x:latest"),
        ("r.io:5000/x@sha256:00", "r.io:5000/x@sha256:00"),
    ],
)
def test_names_in_full(name: str, whole: str) -> None:
    assert full_name(name) == whole


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("busybox", ""),
        ("none", ""),
        ("localhost:5000/a/b_c/d--e:v1.2_3", ""),
        ("registry.k8s.io/pause@sha256:" + "0" * 64, ""),
        ("a" * 63 + ":1", ""),
        ("0" * 64, f"invalid repository name ({'0' * 64}), cannot specify 64-byte hexadecimal strings"),
        ("Busybox", "invalid reference format: repository name (library/Busybox) must be lowercase"),
        ("a b", "invalid reference format"),
        ("a::1", "invalid reference format"),
        ("a/", "invalid reference format"),
        ("a:", "invalid reference format"),
        ("a@sha256:123", "invalid reference format"),
        ("x/" + "a" * 250, "repository name must not be more than 255 characters"),
    ],
)
def test_names_that_no_image_can_have(name: str, problem: str) -> None:
    assert name_problem(name) == problem
