"""Images made by hand, as files: OCI layouts and archives of ``docker save``."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["Entry", "docker_archive", "layer", "oci_layout", "packed"]

Entry = bytes | str | tuple[str, Any]
"""A file's content, a link's target, or a kind (``dir``, ``hard``, ``fifo``, ``file``) and the rest."""
INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


def layer(entries: Mapping[str, Entry]) -> bytes:
    """A tar file, in the order given."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in entries.items():
            info, data = tarfile.TarInfo(name), b""
            info.mode = 0o755
            if isinstance(entry, str):
                info.type, info.linkname = tarfile.SYMTYPE, entry
            elif isinstance(entry, bytes):
                data = entry
            elif entry[0] == "dir":
                info.type = tarfile.DIRTYPE
            elif entry[0] == "hard":
                info.type, info.linkname = tarfile.LNKTYPE, entry[1]
            elif entry[0] == "fifo":
                info.type = tarfile.FIFOTYPE
            else:
                data, info.mode, info.uid = entry[1]
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _config(layers: Sequence[bytes], platform: str, execution: Mapping[str, Any]) -> bytes:
    system, architecture = platform.split("/")
    return json.dumps(
        {
            "os": system,
            "architecture": architecture,
            "config": dict(execution),
            "rootfs": {"type": "layers", "diff_ids": [digest(each) for each in layers]},
        }
    ).encode()


def oci_layout(
    folder: Path,
    name: str,
    platforms: Mapping[str, Sequence[bytes]],
    *,
    execution: Mapping[str, Any] | None = None,
    nested: bool = True,
) -> None:
    """A layout with one image, for several platforms; ``nested`` puts an index around them."""
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def keep(data: bytes, kind: str) -> dict[str, Any]:
        (folder / "blobs" / "sha256" / digest(data)[7:]).write_bytes(data)
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    manifests = []
    for platform, layers in platforms.items():
        zipped = [
            keep(gzip.compress(each, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
            for each in layers
        ]
        config = keep(_config(layers, platform, execution or {}), "application/vnd.oci.image.config.v1+json")
        manifest = json.dumps({"schemaVersion": 2, "config": config, "layers": zipped}).encode()
        system, architecture = platform.split("/")
        manifests.append(
            {**keep(manifest, MANIFEST), "platform": {"os": system, "architecture": architecture}}
        )
    top = (
        [keep(json.dumps({"schemaVersion": 2, "manifests": manifests}).encode(), INDEX)]
        if nested
        else manifests
    )
    for each in top:
        each["annotations"] = {"org.opencontainers.image.ref.name": name}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": top}))


def docker_archive(
    path: Path,
    name: str,
    layers: Sequence[bytes],
    *,
    execution: Mapping[str, Any] | None = None,
    platform: str,
) -> None:
    """What ``docker save`` writes."""
    config = _config(layers, platform, execution or {})
    files = {f"{digest(config)[7:]}.json": config}
    files |= {f"{number}/layer.tar": each for number, each in enumerate(layers)}
    entry = {
        "Config": f"{digest(config)[7:]}.json",
        "RepoTags": [name],
        "Layers": [f"{number}/layer.tar" for number in range(len(layers))],
    }
    files["manifest.json"] = json.dumps([entry]).encode()
    path.write_bytes(layer(files))


def packed(folder: Path, path: Path) -> None:
    """A folder as a tar file."""
    with tarfile.open(path, "w") as archive:
        archive.add(folder, arcname=".")
