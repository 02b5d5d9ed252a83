"""Generate the table of internal forms: how error texts of the real server print parts of objects.

    cd tools && python -m k8s.internalform             write src/quarterdeck/apiserver/data/internal.json
    cd tools && python -m k8s.internalform --check     fail if the committed file differs

Some errors show a whole pod spec or template as JSON of the server's internal Go structs: all fields, in
struct order, under their Go names. The table says what those are, for everything below a few structs:
``{struct: [[shown name, JSON name, type], ...]}``. A type is ``string``, ``int``, ``bool``, ``any`` (shown as
it is on the wire), ``meta``, or a struct; ``*`` before it is a pointer, ``[]`` a list, ``{}`` a map. The Go
sources are Go modules, downloaded if need be.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Final

from kube.server import VERSION

from .gomodule import KUBERNETES, module_dir, module_version

OUTPUT: Final = Path(__file__).resolve().parents[2] / "src/quarterdeck/apiserver/data/internal.json"
GROUPS: Final = ("core", "apps", "batch")
INTERNAL: Final = "pkg/apis/{}/types.go"
EXTERNAL: Final = "{}/v1/types.go"
ROOTS: Final = (
    "PodTemplateSpec",
    "VolumeNodeAffinity",
    "ObjectReference",
    "EventSource",
    "DeploymentStrategy",
    "DaemonSetUpdateStrategy",
    "StatefulSetUpdateStrategy",
    "PodFailurePolicy",
    "SuccessPolicy",
)
BASICS: Final = {
    "string": "string",
    "bool": "bool",
    "int": "int",
    "int32": "int",
    "int64": "int",
    "intstr.IntOrString": "int",
    "types.UID": "string",
    "api.ConditionStatus": "string",
    "api.PodConditionType": "string",
    "metav1.ObjectMeta": "meta",
}
#: fields of a pod spec that are part of its security context inside
MOVED: Final = ("HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers")

STRUCT: Final = re.compile(r"^type (\w+) struct ?\{")
ALIAS: Final = re.compile(r"^type (\w+) =?\s*([\w.\[\]*]+)$")
FIELD: Final = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)(?:\s+`json:\"([^\",]*)[^`]*`)?(?:\s+//.*)?$")


class Source:
    """The structs of all groups: name -> [(Go name, Go type, JSON name)], embedded ones without Go name."""

    def __init__(self, root: Path, pattern: str) -> None:
        self.structs: dict[str, list[tuple[str, str, str]]] = {}
        self.aliases: dict[str, str] = {}
        for group in GROUPS:
            self._read(root / pattern.format(group))

    def _read(self, path: Path) -> None:
        current: list[tuple[str, str, str]] | None = None
        for line in path.read_text().splitlines():
            if found := STRUCT.match(line):
                current = self.structs.setdefault(found[1], [])
                if line.endswith("}"):
                    current = None
            elif line == "}":
                current = None
            elif current is not None and (found := FIELD.match(line)):
                current.append((found[1] or "", found[2], found[3] or ""))
            elif found := ALIAS.match(line):
                self.aliases[found[1]] = found[2]


class Table:
    def __init__(self) -> None:
        self._internal = Source(module_dir(KUBERNETES, VERSION), INTERNAL)
        self._external = Source(module_dir("k8s.io/api", module_version(VERSION)), EXTERNAL)
        self.structs: dict[str, list[list[str]]] = {}

    def add(self, name: str) -> None:
        if name not in self.structs:
            self.structs[name] = []
            self.structs[name] = self._fields(name)

    def _fields(self, name: str) -> list[list[str]]:
        names = self._json_names(name)
        if name == "PodSecurityContext":
            names |= {key: f"^{key[0].lower()}{key[1:]}" for key in MOVED}
        rows: list[list[str]] = []
        for go_name, go_type, tag in self._internal.structs[name]:
            if not go_name and go_type in self._internal.structs:
                rows += self._fields(go_type)
            elif go_type.endswith("ObjectMeta"):
                rows.append(["", "metadata", "meta"])
            elif not go_type.endswith("TypeMeta"):
                rows.append([tag or go_name, names.get(go_name, ""), self._type(go_type)])
        return rows

    def _json_names(self, name: str) -> dict[str, str]:
        """Go name -> JSON name of the v1 struct, those of embedded structs included."""
        names: dict[str, str] = {}
        for go_name, go_type, tag in self._external.structs.get(name, ()):
            if go_name:
                names[go_name] = tag
            else:
                names |= self._json_names(go_type)
        return names

    def _type(self, go_type: str) -> str:
        if go_type in BASICS:
            return BASICS[go_type]
        if go_type.startswith("*"):
            return "*" + self._type(go_type[1:])
        if go_type.startswith("[]"):
            return "any" if go_type == "[]byte" else "[]" + self._type(go_type[2:])
        if go_type.startswith("map["):
            return "{}" + self._type(go_type.partition("]")[2])
        if go_type in self._internal.structs:
            self.add(go_type)
            return go_type
        if go_type in self._internal.aliases:
            return self._type(self._internal.aliases[go_type])
        return "any"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table()
    for root in ROOTS:
        table.add(root)
    rows = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in sorted(table.structs.items())
    )
    text = "{" + rows + "}\n"
    if not options.check:
        OUTPUT.write_text(text)
        return 0
    if OUTPUT.read_text() != text:
        print(f"{OUTPUT.name} is out of date: run make kubernetes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
