"""Writes the data of a release: ``python -m tests.integration.release.make 0.2.0.tar.xz``.

It runs the cluster of ``world.yaml`` until it is calm, stops it and packs its data directory together with
the objects as the release showed them. ``--source FOLDER`` names another version's ``src`` (with the metadata
of its distribution in it). The keys inside are of a cluster that nobody uses.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.integration.release.cluster import Up

WORLD = Path(__file__).with_name("world.yaml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--source", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = Up(folder, source=arguments.source)
        try:
            command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "apply", "-f", str(WORLD)]
            subprocess.run(command, check=True, timeout=120)
            (folder / "objects.json").write_text(json.dumps(cluster.calm()))
        finally:
            cluster.stop()
        with tarfile.open(arguments.archive, "w:xz", preset=9) as archive:
            archive.add(folder / "objects.json", "objects.json")
            archive.add(folder / "data", "data", filter=_kept)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Everything but the lock; owned by nobody in particular."""
    if entry.name == "data/lock":
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
