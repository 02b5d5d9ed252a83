"""YAML as Kubernetes reads it.

    for document in load_documents(path.read_bytes()): ...

Go's YAML library decides what a plain word is, and it differs from PyYAML's: what looks like a date or a
time of day stays text, a lone ``y`` or ``n`` is a boolean, numbers have YAML 1.2's forms as well as the old
octal ones. Everything that reads manifests reads them with this loader.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

_TAG: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$")
_FLOAT: Final = re.compile(
    r"(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
#: what is longer is more than any float, in every notation but the binary one, which nobody writes
_MOST_DIGITS: Final = 310
_NUMBERS: Final = {f"{_TAG}int": _INTEGER, f"{_TAG}float": _FLOAT}


class ManifestLoader(yaml.CSafeLoader):
    """A safe loader with Go's rules for plain words."""


ManifestLoader.yaml_implicit_resolvers = {
    first: [(tag, _NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
ManifestLoader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"[yYnN]\Z"), list("yYnN"))


def _construct_bool(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() in ("y", "yes", "true", "on")


def _construct_float(loader: Any, node: Any) -> float | str:
    """A number; one that no float can hold stays text."""
    value: float = loader.construct_yaml_float(node)
    text = str(node.value)
    return text if value in (float("inf"), float("-inf")) and "inf" not in text.lower() else value


def _construct_integer(loader: Any, node: Any) -> int | str:
    """A number; one that no float can hold stays text."""
    return str(node.value) if len(node.value) > _MOST_DIGITS else int(loader.construct_yaml_int(node))


ManifestLoader.add_constructor(f"{_TAG}bool", _construct_bool)
ManifestLoader.add_constructor(f"{_TAG}int", _construct_integer)
ManifestLoader.add_constructor(f"{_TAG}float", _construct_float)


def load_documents(text: bytes | str) -> Iterator[Any]:
    """The documents of a YAML text one after the other, without empty ones; raises yaml.YAMLError."""
    for document in yaml.load_all(text, Loader=ManifestLoader):
        if document is not None:
            yield document
