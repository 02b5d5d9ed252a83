"""The kubeconfig that clients reach the server with."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from .certificates import Authority, KeyPair
from .privatefile import write_private


def build_kubeconfig(
    server: str,
    authority: Authority,
    client: KeyPair | str,
    *,
    name: str = "quarterdeck",
    namespace: str = "default",
) -> dict[str, Any]:
    """A document with one cluster, one user and one context, certificates embedded.

    `client` is a certificate or a bearer token; `server` a URL such as `https://127.0.0.1:6443`.
    """
    user: dict[str, str]
    if isinstance(client, str):
        user = {"token": client}
    else:
        user = {
            "client-certificate-data": _base64(client.certificate_pem),
            "client-key-data": _base64(client.key_pem),
        }
    cluster = {"server": server, "certificate-authority-data": _base64(authority.certificate_pem)}
    context = {"cluster": name, "user": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }


def write_kubeconfig(path: Path, document: dict[str, Any]) -> None:
    """Write the document, readable by its owner only, in one step. Blocking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
