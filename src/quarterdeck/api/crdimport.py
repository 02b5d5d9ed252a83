"""Custom resource definitions to Python: the reverse of ``crd``.

``module_from_crd(document)`` writes the source of a module with one class per kind and version. It is a
starting point for definitions somebody else owns: names, types, constraints and docs carry over;
``oneOf`` and other free forms are kept as ``Schema`` markers, so that generating the definition again
gives an equivalent one.
"""

import ast
from typing import Any, Final

from quarterdeck.api.naming import to_python, to_wire
from quarterdeck.api.schema import QUANTITY_PATTERN

Doc = dict[str, Any]

_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_RANGES: Final = (("minimum", "exclusiveMinimum", "Ge", "Gt"), ("maximum", "exclusiveMaximum", "Le", "Lt"))
_SIZES: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_KEPT: Final = ("oneOf", "anyOf", "allOf", "not")
_HEADER: Final = '''"""Types of {names}, generated from its custom resource definition."""

from __future__ import annotations

from typing import Annotated, Literal

{imports}

'''
_WRITTEN_WITH: Final = {
    "instant": "Time",
    "intorstring": "IntOrString",
    "marker": "Atomic Cel Default Embedded Enum Format Ge Gt Le Len ListMap ListSet Lt MultipleOf Nullable"
    " Pattern Preserve Schema",
    "model": "UNSET JsonField JsonObjectField Map Maybe Model Seq field",
    "quantity": "Quantity",
    "resource": "Column Resource Scale",
}
"""The names of ``quarterdeck.api`` that a written module may use, by their submodule."""


def module_from_crd(document: Doc) -> str:
    """Python source with a class per version of the kind; versions after the first get a suffix."""
    spec = document["spec"]
    writer = _Writer()
    for i, version in enumerate(spec["versions"]):
        suffix = "" if i == 0 else version["name"].capitalize()
        writer.kind(spec, version, suffix)
    body = "\n\n".join(writer.blocks)
    return _HEADER.format(names=document["metadata"]["name"], imports=_imports(body)) + body


def _imports(body: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines = []
    for module, names in _WRITTEN_WITH.items():
        needed = [name for name in names.split() if name in used]
        lines += [f"from quarterdeck.api.{module} import {', '.join(needed)}"] if needed else []
    return "\n".join(lines)


class _Writer:
    """Collects class definitions, innermost first."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        # a class of the document must not hide one that its fields are written with
        self._taken = {name for names in _WRITTEN_WITH.values() for name in names.split()}

    def kind(self, spec: Doc, version: Doc, suffix: str) -> None:
        names = spec["names"]
        name = self._name(names["kind"] + suffix)
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        properties = {
            key: value
            for key, value in schema.get("properties", {}).items()
            if key not in ("apiVersion", "kind", "metadata")
        }
        keywords = [
            "Resource",
            f"group={spec['group']!r}",
            f"version={version['name']!r}",
            f"kind={names['kind']!r}",
            f"plural={names['plural']!r}",
            f"scope={spec['scope']!r}",
            f"storage={version.get('storage', False)}",
            f"served={version.get('served', True)}",
        ]
        if names.get("shortNames"):
            keywords.append(f"short_names={names['shortNames']!r}")
        subresources = version.get("subresources") or {}
        if "status" in subresources:
            keywords.append("status=True")
        if "scale" in subresources:
            keywords.append(_scale(subresources["scale"]))
        if version.get("additionalPrinterColumns"):
            columns = ", ".join(_column(column) for column in version["additionalPrinterColumns"])
            keywords.append(f"columns=[{columns}]")
        name_rules = _markers(
            schema.get("properties", {}).get("metadata", {}).get("properties", {}).get("name", {})
        )
        if name_rules:
            keywords.append(f"name_rules=[{', '.join(name_rules)}]")
        rules = _rules(schema)
        if rules:
            keywords.append(f"rules=[{', '.join(rules)}]")
        self._class(name, keywords, {**schema, "properties": properties})

    def _class(self, name: str, heads: list[str], schema: Doc) -> None:
        required = set(schema.get("required", ()))
        fields = [
            self._field(name, wire, child, wire in required)
            for wire, child in schema.get("properties", {}).items()
        ]
        fields.sort(key=lambda line: " = " in line)
        doc = _doc(schema.get("description", ""), 4)
        body = "\n".join([doc, *fields] if doc else fields) or "    pass"
        self.blocks.append(f"class {name}({', '.join(heads)}):\n{body}\n")

    def _field(self, owner: str, wire: str, schema: Doc, required: bool) -> str:
        kind = self._type(owner, wire, schema)
        markers = _markers(schema)
        default = _default(schema, required)
        if default == "UNSET":
            kind = f"Maybe[{kind}]"
        if markers:
            kind = f"Annotated[{kind}, {', '.join(markers)}]"
        name = to_python(wire)
        if to_wire(name) != wire:
            given = f", default={default}" if default else ""
            default = f"field(name={wire!r}{given})"
        line = f"    {name}: {kind}" + (f" = {default}" if default else "")
        doc = _doc(schema.get("description", ""), 4)
        return f"{line}\n{doc}" if doc else line

    def _marked(self, owner: str, wire: str, schema: Doc) -> str:
        kind, markers = self._type(owner, wire, schema), _markers(schema)
        return f"Annotated[{kind}, {', '.join(markers)}]" if markers else kind

    def _type(self, owner: str, wire: str, schema: Doc) -> str:
        if schema.get("x-kubernetes-int-or-string"):
            return "Quantity" if schema.get("pattern") == QUANTITY_PATTERN else "IntOrString"
        kind = schema.get("type")
        if kind == "array":
            return f"Seq[{self._marked(owner, wire + 'Item', schema.get('items', {}))}]"
        if kind == "object":
            return self._object(owner, wire, schema)
        if schema.get("enum") and kind == "string":
            return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
        if kind == "string" and schema.get("format") == "date-time":
            return "Time"
        return _PLAIN.get(kind or "", "JsonField")

    def _object(self, owner: str, wire: str, schema: Doc) -> str:
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return f"Map[str, {self._marked(owner, wire + 'Value', values)}]"
        if not schema.get("properties"):
            return "JsonObjectField"
        name = self._name(owner + wire[:1].upper() + wire[1:])
        rules = [*_topology(schema), *_rules(schema)]
        heads = ["Model", f"rules=[{', '.join(rules)}]"] if rules else ["Model"]
        self._class(name, heads, schema)
        return name

    def _name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}{count}"
        self._taken.add(name)
        return name


def _default(schema: Doc, required: bool) -> str:
    if "default" in schema and schema.get("type") in _PLAIN and not schema.get("x-kubernetes-int-or-string"):
        return repr(schema["default"])
    return "" if required else "UNSET"


def _markers(schema: Doc) -> list[str]:
    out: list[str] = []
    for key, exclusive, plain, strict in _RANGES:
        if key in schema:
            out.append(f"{strict if schema.get(exclusive) else plain}({schema[key]!r})")
    size = _SIZES.get(schema.get("type", ""))
    if size is not None:
        low, high = schema.get(f"min{size}"), schema.get(f"max{size}")
        if low is not None or high is not None:
            out.append(f"Len({low!r}, {high!r})")
    if "multipleOf" in schema:
        out.append(f"MultipleOf({schema['multipleOf']!r})")
    if schema.get("enum") and schema.get("type") != "string":
        out.append(f"Enum({', '.join(repr(value) for value in schema['enum'])})")
    if "pattern" in schema and schema["pattern"] != QUANTITY_PATTERN:
        out.append(f"Pattern({schema['pattern']!r})")
    if "format" in schema and schema["format"] != "date-time":
        out.append(f"Format({schema['format']!r})")
    if schema.get("nullable"):
        out.append("Nullable()")
    if "default" in schema and not _default(schema, required=True):
        out.append(f"Default({schema['default']!r})")
    # Rules of a struct belong to its class; everything else carries them on the field.
    if not schema.get("properties"):
        out += _topology(schema)
        out += _rules(schema)
    return out


def _topology(schema: Doc) -> list[str]:
    kind = schema.get("x-kubernetes-list-type") or schema.get("x-kubernetes-map-type")
    out = []
    if kind == "map":
        out.append(f"ListMap({', '.join(repr(key) for key in schema['x-kubernetes-list-map-keys'])})")
    elif kind == "set":
        out.append("ListSet()")
    elif kind == "atomic":
        out.append("Atomic()")
    if schema.get("x-kubernetes-preserve-unknown-fields") and schema.get("properties"):
        out.append("Preserve()")
    if schema.get("x-kubernetes-embedded-resource"):
        out.append("Embedded()")
    return out


def _rules(schema: Doc) -> list[str]:
    out = []
    for rule in schema.get("x-kubernetes-validations", ()):
        parts = [repr(rule["rule"])]
        for wire, name in (
            ("message", "message"),
            ("messageExpression", "message_expression"),
            ("reason", "reason"),
            ("fieldPath", "field_path"),
            ("optionalOldSelf", "optional_old_self"),
        ):
            if wire in rule:
                parts.append(f"{name}={rule[wire]!r}")
        out.append(f"Cel({', '.join(parts)})")
    kept = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        kept.pop("anyOf", None)
    if kept:
        out.append(f"Schema({kept!r})")
    return out


def _scale(scale: Doc) -> str:
    parts = [repr(scale["specReplicasPath"]), repr(scale["statusReplicasPath"])]
    if scale.get("labelSelectorPath"):
        parts.append(repr(scale["labelSelectorPath"]))
    return f"scale=Scale({', '.join(parts)})"


def _column(column: Doc) -> str:
    parts = [repr(column["name"]), repr(column["jsonPath"]), repr(column.get("type", "string"))]
    parts += [f"{key}={column[key]!r}" for key in ("description", "format", "priority") if column.get(key)]
    return f"Column({', '.join(parts)})"


def _doc(text: str, indent: int) -> str:
    if not text:
        return ""
    body = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    if body.endswith('"'):
        body += " "
    pad = " " * indent
    return pad + '"""' + body.replace("\n", f"\n{pad}") + '"""'
