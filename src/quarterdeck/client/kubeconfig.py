"""Kubeconfig files: read, merge, pick a context.

Only the file format lives here; ``config`` turns the chosen context into settings. Several files (the
``KUBECONFIG`` variable is a list) merge as kubectl merges them: the first file to name an entry wins,
the first non-empty ``current-context`` wins, and relative paths mean relative to their own file.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from quarterdeck.errors import ConfigError, reason_of

_PATHS: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


class Context(msgspec.Struct, frozen=True):
    """One context with its cluster and user, paths made absolute."""

    name: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]


def load_kubeconfig(paths: Sequence[Path], context: str = "") -> Context:
    """Read the files that exist and resolve a context (the current one by default).

    Raises ``ConfigError`` when nothing usable is there; the message says what is missing where.
    """
    merged: dict[str, dict[str, Any]] = {"clusters": {}, "users": {}, "contexts": {}}
    current, found = context, []
    for path in paths:
        document = _read(path)
        if document is None:
            continue
        found.append(str(path))
        current = current or str(document.get("current-context") or "")
        for section, key in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in document.get(section) or ():
                value = _absolute(entry.get(key) or {}, key, path)
                merged[section].setdefault(str(entry.get("name", "")), value)
    where = ", ".join(found) or ", ".join(str(path) for path in paths)
    if not found:
        raise ConfigError(f"no kubeconfig file found at {where}")
    if not current:
        raise ConfigError(f"no current-context in {where}: choose one with kubectl config use-context")
    if current not in merged["contexts"]:
        raise ConfigError(f'context "{current}" does not exist in {where}')
    chosen = merged["contexts"][current]
    cluster = merged["clusters"].get(str(chosen.get("cluster", "")))
    if cluster is None:
        raise ConfigError(
            f'cluster "{chosen.get("cluster", "")}" of context "{current}" does not exist in {where}'
        )
    user = merged["users"].get(str(chosen.get("user", "")), {})
    if chosen.get("user") and chosen["user"] not in merged["users"]:
        raise ConfigError(f'user "{chosen["user"]}" of context "{current}" does not exist in {where}')
    return Context(current, str(chosen.get("namespace") or ""), cluster, user)


def _read(path: Path) -> Mapping[str, Any] | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {reason_of(error)}") from error
    import yaml  # late: processes that are told where they are, by a pod or a test, need none

    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {reason_of(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} is not a mapping")
    return document


def _absolute(entry: Mapping[str, Any], kind: str, path: Path) -> dict[str, Any]:
    out = dict(entry)
    for key in _PATHS.get(kind, ()):
        if out.get(key):
            out[key] = str(path.parent / str(out[key]))
    plugin = out.get("exec")
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        out["exec"] = {**plugin, "command": str(path.parent / plugin["command"])}
    return out


def decode_data(entry: Mapping[str, Any], key: str) -> str:
    """The PEM text of a base64 ``…-data`` field; empty when absent."""
    data = entry.get(key)
    if not data:
        return ""
    try:
        return base64.b64decode(str(data), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{key} in the kubeconfig is not base64 of a PEM text: {error}") from error
