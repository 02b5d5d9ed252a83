"""Kubernetes as Go modules: where the sources are, and how ``tools/kube/go.mod`` moves to a release."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Final

from kube.server import GO_MOD

KUBERNETES: Final = "k8s.io/kubernetes"
#: What the programs are built from, so that the checksums of all of it get into go.sum.
PACKAGES: Final = (".", "./clientgo", "k8s.io/kubernetes/test/e2e")


def module_version(version: str) -> str:
    """The version of the modules that Kubernetes publishes beside itself: v1.36.3 -> v0.36.3."""
    return f"v0.{version.partition('.')[2]}"


def module_dir(module: str, version: str) -> Path:
    """The sources of a module, downloaded if need be."""
    return Path(_download(module, version)["Dir"])


def move(version: str) -> None:
    """Let go.mod and go.sum name this release of Kubernetes and everything it was released with."""
    theirs = Path(_download(KUBERNETES, version)["GoMod"]).read_text()
    published = re.findall(r"^\t(k8s\.io/\S+) => \./staging/", theirs, re.MULTILINE)
    etcd = re.search(r"^\tgo\.etcd\.io/etcd/client/v3 (\S+)", theirs, re.MULTILINE)
    go = re.search(r"^go (\S+)$", theirs, re.MULTILINE)
    if not published or etcd is None or go is None:
        raise SystemExit(f"cannot read the go.mod of {KUBERNETES} {version}: its form has changed")
    ours = module_version(version)
    required = re.findall(r"^\t(k8s\.io/\S+) v\S+$", GO_MOD.read_text(), re.MULTILINE)
    edits = [f"-go={go[1]}", f"-require=go.etcd.io/etcd/server/v3@{etcd[1]}"]
    edits += [f"-require={name}@{version if name == KUBERNETES else ours}" for name in required]
    edits += [f"-replace={name}={name}@{ours}" for name in published]
    _go("mod", "edit", *edits)
    _go("list", "-mod=mod", "-deps", "-test", *PACKAGES)


def _download(module: str, version: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(_go("mod", "download", "-json", f"{module}@{version}"))
    return found


def _go(*words: str) -> str:
    environment = {**os.environ, "GOFLAGS": "", "GOSUMDB": "off"}
    result = subprocess.run(
        ["go", *words], cwd=GO_MOD.parent, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if result.returncode:
        raise SystemExit(f"go {' '.join(words[:3])} failed")
    return result.stdout
