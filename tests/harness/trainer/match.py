"""Comparing objects with what a trainer case expects of them.

Maps match when every expected key does. Lists of maps match by their key, in any order and with room for
more; owners and sources of variables must be among those found; all other lists are equal. Keys and texts
that begin with `$` are markers; one that is not known is a mismatch.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quarterdeck.api import Quantity
from tests.harness.matching import MISSING, json_equal, show
from tests.harness.variable import lookup

Json = dict[str, Any]

_KEYS: Final = {"volumeMounts": "mountPath", "ports": "containerPort", "conditions": "type"}
_CONTAINED: Final = ("envFrom", "ownerReferences", "managedFields")
_QUANTITIES: Final = ("requests", "limits", "minResources", "capacity", "allocatable", "overhead", "hard")
_CURVES: Final = {"P-256": "secp256r1", "P-384": "secp384r1", "P-521": "secp521r1"}
_LENGTH: Final = "$exactListLength"


def object_mismatches(expected: Any, actual: Any) -> list[str]:
    """Every difference as `path: expected ..., got ...`; empty when `actual` is as expected."""
    return _compare(expected, actual, "", {})


def _differs(path: str, expected: str, actual: Any) -> list[str]:
    return [f"{path or '(whole)'}: expected {expected}, got {show(actual)}"]


def _compare(expected: Any, actual: Any, path: str, beside: Mapping[str, Any]) -> list[str]:
    """`beside` is the map that holds the value: some markers look at its other keys."""
    if isinstance(expected, dict):
        return _compare_map(expected, actual, path)
    if isinstance(expected, list):
        return _compare_list(expected, actual, path)
    if isinstance(expected, str) and expected.startswith("$"):
        return _compare_text(expected, actual, path, beside)
    return [] if _is_same(expected, actual, path) else _differs(path, show(expected), actual)


def _is_same(expected: Any, actual: Any, path: str) -> bool:
    if json_equal(expected, actual):
        return True
    if not any(f".{word}." in f".{path}." for word in _QUANTITIES):
        return False
    try:
        return Quantity(expected) == Quantity(actual)
    except (ValueError, TypeError):
        return False


def _compare_map(expected: Json, actual: Any, path: str) -> list[str]:
    if expected.keys() == {"$setByPath"}:
        return _set_by_path(expected["$setByPath"], actual, path)
    if not isinstance(actual, dict):
        return _differs(path, "an object", actual)
    found: list[str] = []
    for key, value in expected.items():
        if key == _LENGTH:
            continue  # about the list that holds this map
        if key.startswith("$"):
            marker = _MARKERS.get(key)
            found += marker(value, actual, path) if marker else [f"{path}: marker {key} is not understood"]
        else:
            place = f"{path}.{key}" if path else key
            found += _compare(value, actual.get(key, MISSING), place, actual)
    return found


def _absent_paths(paths: Any, actual: Json, path: str) -> list[str]:
    found: list[str] = []
    for each in [paths] if isinstance(paths, str) else paths:
        try:
            value = lookup(actual, each)
        except KeyError:
            continue
        if value not in (None, "", [], {}):
            found += _differs(f"{path}.{each}".lstrip("."), "nothing", value)
    return found


def _absent_keys(keys: Any, actual: Json, path: str) -> list[str]:
    wrong = [key for key in ([keys] if isinstance(keys, str) else keys) if key in actual]
    return [line for key in wrong for line in _differs(f"{path}.{key}", "nothing", actual[key])]


def _absent_env(names: Any, actual: Json, path: str) -> list[str]:
    present = {entry.get("name"): entry for entry in actual.get("env") or ()}
    wrong = [name for name in ([names] if isinstance(names, str) else names) if name in present]
    return [line for name in wrong for line in _differs(f"{path}.env[{name}]", "nothing", present[name])]


def _no_condition(types: Any, actual: Json, path: str) -> list[str]:
    wanted = [types] if isinstance(types, str) else types
    conditions = (actual.get("status") or {}).get("conditions") or ()
    wrong = [each for each in conditions if each.get("type") in wanted and each.get("status") == "True"]
    return [line for each in wrong for line in _differs(f"{path}.status", f"no {each['type']}", each)]


def _managed_by(entry: Any, actual: Json, path: str) -> list[str]:
    wanted = [{"manager": each} if isinstance(each, str) else each for each in _listed(entry)]
    managed = (actual.get("metadata") or {}).get("managedFields") or []
    missing = [each for each in wanted if not any(not _compare(each, one, "", {}) for one in managed)]
    return [line for each in missing for line in _differs(f"{path}.managedFields", show(each), managed)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_MARKERS: Final[Mapping[str, Callable[[Any, Json, str], list[str]]]] = {
    "$absentPaths": _absent_paths,
    "$absent": _absent_keys,
    "$absentEnv": _absent_env,
    "$noCondition": _no_condition,
    "$managedBy": _managed_by,
}


def _compare_list(expected: list[Any], actual: Any, path: str) -> list[str]:
    if not isinstance(actual, list):
        return [] if not expected and actual is MISSING else _differs(path, show(expected), actual)
    found: list[str] = []
    for length in {each[_LENGTH] for each in expected if isinstance(each, dict) and _LENGTH in each}:
        if len(actual) != length:
            found += _differs(path, f"{length} elements", actual)
    name = re.sub(r"\[[^\]]*\]$", "", path).rpartition(".")[2]
    key = _key_of(name, expected)
    if name in _CONTAINED:
        return found + _contained(expected, actual, path)
    if key:
        return found + _by_key(expected, actual, path, key)
    if len(actual) != len(expected):
        return found + _differs(path, show(expected), actual)
    for place, (wanted, other) in enumerate(zip(expected, actual, strict=True)):
        found += _exact(wanted, other, f"{path}[{place}]")
    return found


def _key_of(name: str, expected: list[Any]) -> str:
    """The key of a list's elements; empty if they have none."""
    if not expected or not all(isinstance(each, dict) for each in expected):
        return ""
    for key in (_KEYS.get(name, "name"), "name"):
        if all(key in each for each in expected):
            return key
    return ""


def _by_key(expected: list[Json], actual: list[Any], path: str, key: str) -> list[str]:
    found: list[str] = []
    for wanted in expected:
        other = next((e for e in actual if isinstance(e, dict) and e.get(key) == wanted[key]), MISSING)
        found += _compare(wanted, other, f"{path}[{wanted[key]}]", {})
    return found


def _contained(expected: list[Any], actual: list[Any], path: str) -> list[str]:
    missing = [each for each in expected if not any(not _compare(each, one, path, {}) for one in actual)]
    return [line for each in missing for line in _differs(path, f"an element like {show(each)}", actual)]


def _exact(expected: Any, actual: Any, path: str) -> list[str]:
    """Equality, with quantities by value and markers in force."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        extra = actual.keys() - expected.keys()
        if extra and not any(key.startswith("$") for key in expected):
            return _differs(path, show(expected), actual)
        return _compare_map(expected, actual, path)
    return _compare(expected, actual, path, {})


def _set_by_path(expected: list[Json], actual: Any, path: str) -> list[str]:
    if not isinstance(actual, list) or len(actual) != len(expected):
        return _differs(path, f"{len(expected)} elements, {show(expected)}", actual)
    return _by_key(expected, actual, path, "path")


def _compare_text(expected: str, actual: Any, path: str, beside: Mapping[str, Any]) -> list[str]:
    parts = expected.split(":")
    try:
        if parts[0] == "$pem" and len(parts) == 3:
            _check_pem(_decoded(actual), parts[1], parts[2])
        elif parts[0] == "$authorizedKey" and len(parts) == 4 and parts[2] == "matches":
            _check_authorized_key(_decoded(actual), parts[1], _decoded(beside.get(parts[3])))
        else:
            return [f"{path}: marker {expected} is not understood"]
    except (ValueError, UnsupportedAlgorithm) as error:
        return [f"{path}: expected {expected}, but {error}"]
    return []


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError(f"it is no base64: {error}") from error


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("it is no key of an elliptic curve")
    return key


def _check_pem(pem: bytes, block: str, curve: str) -> None:
    if not pem.startswith(f"-----BEGIN {block}-----".encode()):
        raise ValueError(f"it begins with {pem[:40]!r}")
    found = _private_key(pem).curve.name
    if found != _CURVES.get(curve):
        raise ValueError(f"the curve is {found}")


def _check_authorized_key(line: bytes, kind: str, private: bytes) -> None:
    if not line.endswith(b"\n") or line.count(b"\n") != 1 or not line.startswith(f"{kind} ".encode()):
        raise ValueError(f"it is no line of that kind: {line[:60]!r}")
    public = _private_key(private).public_key()
    known = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    if line.split()[:2] != known.split()[:2]:
        raise ValueError("it does not belong to the private key")
