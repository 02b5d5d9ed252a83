"""Generate the table of built-in Kubernetes types from the Go sources of the API modules.

    cd tools && python -m k8s.typetable                    write src/quarterdeck/apiserver/data/types.json
    cd tools && python -m k8s.typetable --check            fail if the committed file differs, and with
        --proto FILE      compare the protobuf numbers with a table of messages
        --openapi FILE    compare every schema with a running server (FILE: its kubeconfig)

The sources are Go modules, so Go is needed to download them; the result is committed and read by
``quarterdeck.apiserver.document.typetable``, which does not need it.

The file is ``{"kinds": {apiVersion: {kind: model name}}, "types": {model name: type}}`` with OpenAPI's model
names and without descriptions. A type is

    {"fields": [field, ...],       in Go's order, embedded ("inline") structs flattened
     "atomic": true,               the struct is one value for server-side apply
     "unions": [...]}              OpenAPI's x-kubernetes-unions

and a field is ``[json name, type, number, flags]`` or ``[..., extra]``:

  type     string int32 int64 bool double bytes; time microTime quantity intOrString
           rawExtension fieldsV1 json; strings (a list of strings wrapped in a protobuf message);
           schemaOrArray schemaOrBool schemaOrStrings; a model name; ``[]T`` a list; ``{}T`` a map
  number   the protobuf field number; a list of numbers leads through flattened messages; 0: not encoded
  flags    1 omitempty, 2 pointer in Go (a zero value is kept), 4 omitzero, 8 required in OpenAPI
  extra    list, keys, map, struct: the x-kubernetes-list-type, list-map-keys, map-type of the field, and
           "atomic" for a field of a granular struct type;  patch, key: patch strategy and merge key;
           default: an explicit default;  enum: the allowed values;
           go: the Go type as decode errors print it, where it does not follow from the type
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kube.server import VERSION, cache_dir

from .gomodule import module_dir, module_version

OUTPUT: Final = Path(__file__).resolve().parents[2] / "src/quarterdeck/apiserver/data/types.json"

MODULES: Final = (
    "k8s.io/api",
    "k8s.io/apimachinery",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/kube-aggregator",
)
META: Final = "k8s.io/apimachinery/pkg/apis/meta/v1"
APIEXTENSIONS: Final = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

# The group versions that Kubernetes serves by default, and what they are built from.
PACKAGES: Final = (
    "k8s.io/api/core/v1",
    "k8s.io/api/admissionregistration/v1",
    "k8s.io/api/apps/v1",
    "k8s.io/api/authentication/v1",
    "k8s.io/api/authorization/v1",
    "k8s.io/api/autoscaling/v1",
    "k8s.io/api/autoscaling/v2",
    "k8s.io/api/batch/v1",
    "k8s.io/api/certificates/v1",
    "k8s.io/api/coordination/v1",
    "k8s.io/api/discovery/v1",
    "k8s.io/api/events/v1",
    "k8s.io/api/flowcontrol/v1",
    "k8s.io/api/networking/v1",
    "k8s.io/api/node/v1",
    "k8s.io/api/policy/v1",
    "k8s.io/api/rbac/v1",
    "k8s.io/api/resource/v1",
    "k8s.io/api/scheduling/v1",
    "k8s.io/api/storage/v1",
    APIEXTENSIONS,
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
    META,
    "k8s.io/apimachinery/pkg/version",
)

# Part of the meta package, but on the wire they are plain v1.
UNVERSIONED: Final = frozenset(["Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"])

# Types with an encoding of their own, or from packages that are not read.
LEAVES: Final = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microTime",
    f"{META}.FieldsV1": "fieldsV1",
    f"{META}.Verbs": "strings",
    "k8s.io/api/authentication/v1.ExtraValue": "strings",
    "k8s.io/api/authorization/v1.ExtraValue": "strings",
    "k8s.io/api/certificates/v1.ExtraValue": "strings",
    f"{APIEXTENSIONS}.JSON": "json",
    f"{APIEXTENSIONS}.JSONSchemaPropsOrArray": "schemaOrArray",
    f"{APIEXTENSIONS}.JSONSchemaPropsOrBool": "schemaOrBool",
    f"{APIEXTENSIONS}.JSONSchemaPropsOrStringArray": "schemaOrStrings",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intOrString",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "rawExtension",
    "k8s.io/apimachinery/pkg/types.UID": "string",
    "k8s.io/apimachinery/pkg/types.NodeName": "string",
}
BASICS: Final = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "float64": "double",
    "[]byte": "bytes",
}

OMITEMPTY, POINTER, OMITZERO, REQUIRED = 1, 2, 4, 8

STRUCT = re.compile(r"^type (\w+) struct ?\{(\}?)$")
ALIAS = re.compile(r"^type (\w+) (=\s*)?([\w.\[\]]+)$")
# Both ways of writing a typed constant: A T = "a", and A = T("a").
CONST = re.compile(r'^(?:const |\t)(\w+)(?:\s+(\w+)\s*=\s*|\s*=\s*(\w+)\()("[^"]*"|\w+\.\w+)')
FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`([^`]*)`")
TAG = re.compile(r'(\w+):"([^"]*)"')
IMPORT = re.compile(r'^(?:import |\t)(?:(\w+) )?"([^"]+)"$')
MARKER = re.compile(r"^\s*// ?\+([A-Za-z][\w:-]*)(?:=(.*))?$")
REGISTERED = re.compile(r"^\t\t&(\w+)\{\},")
MAP = re.compile(r"map\[([\w.]+)\](.+)$")


@dataclass
class GoField:
    name: str  # empty for an embedded struct
    type: str
    tags: dict[str, str]
    markers: dict[str, list[str]]


@dataclass
class GoType:
    package: str
    name: str
    imports: dict[str, str]
    markers: dict[str, list[str]]
    fields: list[GoField] | None = None  # None: not a struct
    underlying: str = ""
    enum: list[str] = field(default_factory=list)


class Sources:
    """The parsed packages: types by ``import/path.Name``, groups and registered kinds by package."""

    def __init__(self) -> None:
        self.types: dict[str, GoType] = {}
        self.groups: dict[str, str] = {}
        self.kinds: dict[str, list[str]] = {}
        self.models: set[str] = set()
        self.constants: dict[str, str] = {}
        roots = {name: module_dir(name, module_version(VERSION)) for name in MODULES}
        for package in PACKAGES:
            module = next(name for name in MODULES if package.startswith(name + "/"))
            directory = roots[module] / package[len(module) + 1 :]
            files = sorted(directory.glob("*.go"))
            for path in files:
                if not path.name.startswith("zz_") and not path.name.endswith(("_test.go", ".pb.go")):
                    self._read(package, path)
            for path in files:
                self._read_constants(package, path)
            names = (directory / "zz_generated.model_name.go").read_text()
            self.models.update(re.findall(r'return "(io\.k8s\.[^"]+)"', names))

    def _read(self, package: str, path: Path) -> None:
        imports: dict[str, str] = {}
        markers: dict[str, list[str]] = {}
        current: GoType | None = None
        for line in path.read_text().splitlines():
            if match := IMPORT.match(line):
                imports[match[1] or match[2].rsplit("/", 1)[-1]] = match[2]
            elif match := MARKER.match(line):
                markers.setdefault(match[1], []).append(match[2] or "")
            elif match := STRUCT.match(line):
                found = GoType(package, match[1], imports, markers, fields=[])
                self.types[f"{package}.{match[1]}"] = found
                current = None if match[2] else found
                markers = {}
            elif match := ALIAS.match(line):
                self.types[f"{package}.{match[1]}"] = GoType(
                    package, match[1], imports, markers, underlying=match[3]
                )
                markers = {}
            elif current is not None and (match := FIELD.match(line)):
                assert current.fields is not None
                current.fields.append(GoField(match[1] or "", match[2], dict(TAG.findall(match[3])), markers))
                markers = {}
            elif line == "}":
                current = None
            elif match := REGISTERED.match(line):
                self.kinds.setdefault(package, []).append(match[1])
            elif match := re.match(r'^const GroupName = "(.*)"$', line):
                self.groups[package] = match[1]
            # A blank line or a plain comment keeps markers only as long as Go's tools do: markers of a
            # type may stand one blank line above its documentation.
            elif line.strip() and not line.strip().startswith("//"):
                markers = {}

    def _read_constants(self, package: str, path: Path) -> None:
        for line in path.read_text().splitlines():
            match = CONST.match(line)
            if match and (known := self.types.get(f"{package}.{match[2] or match[3]}")):
                value = match[4].strip('"')
                if not match[4].startswith('"'):
                    # A constant of a package read before, such as core's.
                    alias, _, name = match[4].partition(".")
                    value = self.constants[f"{known.imports[alias]}.{name}"]
                known.enum.append(value)
                self.constants[f"{package}.{match[1]}"] = value


def model_name(package: str, name: str) -> str:
    """The OpenAPI name of a Go type: k8s.io/api/core/v1 Pod -> io.k8s.api.core.v1.Pod."""
    host, _, path = package.partition("/")
    return ".".join([*reversed(host.split(".")), *path.split("/"), name])


class Table:
    """Turns parsed sources into the rows of types.json."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def build(self) -> dict[str, Any]:
        types: dict[str, Any] = {}
        for path, go in self._sources.types.items():
            name = model_name(go.package, go.name)
            if go.fields is None or path in LEAVES or name not in self._sources.models:
                continue
            if go.fields and not any("json" in each.tags for each in go.fields):
                continue  # prints itself, and no field is of this type
            types[name] = {"fields": self._fields(go)}
            if go.markers.get("structType") == ["atomic"]:
                types[name]["atomic"] = True
            if "union" in go.markers:
                types[name]["unions"] = [_union(go)]
        return {"kinds": self._kinds(types), "types": dict(sorted(types.items()))}

    def _kinds(self, types: dict[str, Any]) -> dict[str, dict[str, str]]:
        result: dict[str, dict[str, str]] = {}
        for package, kinds in self._sources.kinds.items():
            group, version = self._sources.groups[package], package.rsplit("/", 1)[1]
            for kind in kinds:
                plain = not group or (package == META and kind in UNVERSIONED)
                if (name := model_name(package, kind)) in types:
                    result.setdefault(version if plain else f"{group}/{version}", {})[kind] = name
        return result

    def _fields(self, go: GoType, prefix: tuple[int, ...] | None = ()) -> list[list[Any]]:
        """The rows of a struct; prefix leads to it from the outermost message, None: it is not encoded."""
        rows: list[list[Any]] = []
        for each in go.fields or []:
            name, *options = each.tags.get("json", "").split(",")
            if name == "-" or "json" not in each.tags:
                continue
            protobuf = each.tags.get("protobuf", "")
            path: tuple[int, ...] | None = None
            if prefix is not None and protobuf not in ("", "-"):
                path = (*prefix, int(protobuf.split(",")[1]))
            if name:
                rows.append(self._row(go, each, name, options, path))
            else:
                embedded = self._sources.types[self._path(go, each.type.lstrip("*"))]
                rows += self._fields(embedded, path)
        return rows

    def _row(
        self, go: GoType, each: GoField, name: str, options: list[str], path: tuple[int, ...] | None
    ) -> list[Any]:
        markers = each.markers
        flags = OMITEMPTY * ("omitempty" in options) | OMITZERO * ("omitzero" in options)
        flags |= POINTER * each.type.startswith("*")
        is_optional = "omitempty" in options or "omitzero" in options or "optional" in markers
        if "required" in markers or not is_optional:
            flags |= REQUIRED
        kind = self._type(go, each.type)
        extra: dict[str, Any] = {}
        for marker, key in (("listType", "list"), ("mapType", "map"), ("structType", "struct")):
            if marker in markers:
                extra[key] = markers[marker][0]
        if "listMapKey" in markers:
            extra["keys"] = markers["listMapKey"]
        if "patchStrategy" in each.tags:
            extra["patch"] = each.tags["patchStrategy"]
        if "patchMergeKey" in each.tags:
            extra["key"] = each.tags["patchMergeKey"]
        if "default" in markers:
            extra["default"] = self._default(go, markers["default"][0])
        if enum := self._enum(go, each.type):
            extra["enum"] = enum
        text = self._go_text(go, each.type.lstrip("*"))
        if text != _plain_go_text(kind):
            extra["go"] = text
        number: Any = 0 if path is None else path[0] if len(path) == 1 else list(path)
        return [name, kind, number, flags, *([extra] if extra else [])]

    def _path(self, go: GoType, text: str) -> str:
        """The full name of a type named in the source of ``go``."""
        alias, _, name = text.rpartition(".")
        return f"{go.imports[alias] if alias else go.package}.{name}"

    def _type(self, go: GoType, text: str) -> str:
        text = text.lstrip("*")
        if text in BASICS:
            return BASICS[text]
        if text.startswith("[]"):
            return "[]" + self._type(go, text[2:])
        if match := MAP.match(text):
            return "{}" + self._type(go, match[2])
        path = self._path(go, text)
        if path in LEAVES:
            return LEAVES[path]
        known = self._sources.types[path]
        if known.fields is not None:
            return model_name(known.package, known.name)
        return self._type(known, known.underlying)

    def _default(self, go: GoType, text: str) -> Any:
        if match := re.fullmatch(r"ref\((\w+)\)", text):
            return self._sources.constants[f"{go.package}.{match[1]}"]
        return json.loads(text)

    def _enum(self, go: GoType, text: str) -> list[str]:
        text = text.lstrip("*")
        if text in BASICS:
            return []
        if text.startswith("[]"):
            return self._enum(go, text[2:])
        if match := MAP.match(text):
            return self._enum(go, match[2])
        known = self._sources.types.get(self._path(go, text))
        if known is None or known.fields is not None:
            return []
        if "enum" in known.markers:
            return sorted(set(known.enum))
        return self._enum(known, known.underlying)

    def _go_text(self, go: GoType, text: str) -> str:
        """The type as Go's reflection prints it: aliases resolved, packages by their last element."""
        if text.startswith("*"):
            return "*" + self._go_text(go, text[1:])
        if text in BASICS:
            return "[]uint8" if text == "[]byte" else text
        if text.startswith("[]"):
            return "[]" + self._go_text(go, text[2:])
        if match := MAP.match(text):
            return f"map[{self._go_text(go, match[1])}]{self._go_text(go, match[2])}"
        package, _, name = self._path(go, text).rpartition(".")
        return f"{package.rsplit('/', 1)[1]}.{name}"


def _union(go: GoType) -> dict[str, Any]:
    """OpenAPI's x-kubernetes-unions: which field names the member that is set."""
    result: dict[str, Any] = {}
    members: dict[str, str] = {}
    for each in go.fields or []:
        name = each.tags["json"].split(",")[0]
        if "unionDiscriminator" in each.markers:
            result["discriminator"] = name
        else:
            members[name] = each.name
    return {**result, "fields-to-discriminateBy": dict(sorted(members.items()))}


GO_LEAVES: Final = {
    "bytes": "[]uint8",
    "double": "float64",
    "time": "v1.Time",
    "microTime": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "intOrString": "intstr.IntOrString",
    "rawExtension": "runtime.RawExtension",
    "fieldsV1": "v1.FieldsV1",
    "json": "v1.JSON",
    "strings": "v1.ExtraValue",
    "schemaOrArray": "v1.JSONSchemaPropsOrArray",
    "schemaOrBool": "v1.JSONSchemaPropsOrBool",
    "schemaOrStrings": "v1.JSONSchemaPropsOrStringArray",
}


def _plain_go_text(kind: str) -> str:
    if kind.startswith("[]"):
        return "[]" + _plain_go_text(kind[2:])
    if kind.startswith("{}"):
        return "map[string]" + _plain_go_text(kind[2:])
    if "." in kind:
        return ".".join(kind.rsplit(".", 2)[1:])
    return GO_LEAVES.get(kind, kind)


def encode(table: dict[str, Any]) -> str:
    """One type per line: small, and a change shows as a small difference."""

    def section(rows: dict[str, Any]) -> str:
        lines = (f"{json.dumps(name)}:{json.dumps(row, separators=(',', ':'))}" for name, row in rows.items())
        return "{\n" + ",\n".join(lines) + "\n}"

    return "{" + ",\n".join(f"{json.dumps(key)}:{section(rows)}" for key, rows in table.items()) + "}\n"


def compare_protobuf(table: dict[str, Any], messages: dict[str, dict[str, list[str]]]) -> list[str]:
    """Differences to a table name -> number -> [field, type, ...], whose last item may be "inline"."""

    def flat(message: str, path: tuple[int, ...] = ()) -> dict[tuple[int, ...], str]:
        result: dict[tuple[int, ...], str] = {}
        for number, (name, *rest) in messages[message].items():
            here = (*path, int(number))
            result |= flat(rest[0], here) if rest[-1] == "inline" else {here: name}
        return result

    problems = []
    for message in messages:
        # k8s.io.kube_aggregator.pkg... -> io.k8s.kube-aggregator.pkg...
        name = message.replace("k8s.io.", "io.k8s.", 1).replace("_", "-")
        if name not in table["types"]:
            continue  # encoded in a way of its own
        fields = table["types"][name]["fields"]
        mine = {tuple(n) if isinstance(n, list) else (n,): json_name for json_name, _, n, *_ in fields if n}
        theirs = flat(message)
        problems += [
            f"{name} {path}: {mine.get(path)} here, {theirs.get(path)} there"
            for path in sorted(mine.keys() | theirs.keys())
            if mine.get(path) != theirs.get(path)
        ]
    return problems


def compare_openapi(kubeconfig: Path) -> list[str]:
    """Differences between the committed table and the OpenAPI documents of a running server."""
    from quarterdeck.apiserver.document import typetable

    def get(path: str) -> Any:
        command = [str(cache_dir() / "kubectl"), f"--kubeconfig={kubeconfig}", "get", "--raw", path]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    problems = []
    for path, entry in get("/openapi/v3")["paths"].items():
        _, _, api_version = path.partition("/")
        group, _, version = api_version.rpartition("/")
        schemas = get(entry["serverRelativeURL"]).get("components", {}).get("schemas", {})
        if not all(name.startswith("io.k8s.") for name in schemas):
            continue  # a group of custom resources
        for name, schema in schemas.items():
            try:
                mine = typetable.openapi(name, group, version)
            except KeyError:
                mine = {}
            theirs = _without_descriptions(schema)
            if mine != theirs:
                problems.append(f"{path} {name}: {json.dumps(mine)} here, {json.dumps(theirs)} there")
    return problems


def _without_descriptions(schema: Any, is_properties: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without_descriptions(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"allOf", "description"}:
        # The reference stands alone once its description is gone.
        return schema["allOf"][0]
    return {
        key: _without_descriptions(value, key == "properties")
        for key, value in schema.items()
        if is_properties or key != "description"
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="generate the table of built-in Kubernetes types")
    parser.add_argument("--check", action="store_true", help="only compare with the committed file")
    parser.add_argument("--proto", type=Path, help="with --check: compare with this table of messages")
    parser.add_argument(
        "--openapi", type=Path, help="with --check: compare with the server of this kubeconfig"
    )
    options = parser.parse_args()
    table = Table(Sources()).build()
    text = encode(table)
    if not options.check:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text)
        return 0
    problems = []
    if not OUTPUT.exists() or OUTPUT.read_text() != text:
        problems.append(f"{OUTPUT.name} is out of date: run make kubernetes")
    if options.proto:
        problems += compare_protobuf(table, json.loads(options.proto.read_text()))
    if options.openapi:
        problems += compare_openapi(options.openapi)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
