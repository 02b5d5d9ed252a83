"""The source of ``quarterdeck.api.k8s``: one class per built-in type, written from the recorded facts.

The facts are ``types.json`` (fields, types, list types, defaults, what is required) and ``resources.json``
(scope, short names, subresources) in ``src/quarterdeck/apiserver/data``; ``layout`` says which types there
are and where. Descriptions are not among the facts, and the classes carry none.

Go's zero values decide the Python defaults. A string, list, map or struct that is not a pointer reads as
empty and is left out when empty; everything else is ``UNSET`` until given, so that ``0`` and ``False`` can
be said.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from quarterdeck.api.naming import to_python, to_wire

from .layout import EXPORTS, FREE_FORM, HAND_WRITTEN, META_CLASSES, MODULES, PLURALS, Module

ROOT: Final = Path(__file__).resolve().parents[2]
OUTPUT: Final = ROOT / "src/quarterdeck/api/k8s"
DATA: Final = ROOT / "src/quarterdeck/apiserver/data"
POINTER, REQUIRED = 2, 8

HOMES: Final = {
    "Annotated": "typing",
    "IntOrString": "quarterdeck.api.intorstring",
    "Quantity": "quarterdeck.api.quantity",
    "Resource": "quarterdeck.api.resource",
    **dict.fromkeys(("MicroTime", "OptionalMicroTime", "OptionalTime", "Time"), "quarterdeck.api.instant"),
    **dict.fromkeys(
        ("Atomic", "Default", "Int32", "Int64", "ListMap", "ListSet", "Preserve", "Required"),
        "quarterdeck.api.marker",
    ),
    **dict.fromkeys(
        ("EMPTY_MAP", "UNSET", "JsonObjectField", "Map", "Maybe", "Model", "Seq", "field", "omitempty"),
        "quarterdeck.api.model",
    ),
}
"""Where the words of the generated classes come from."""

PLAIN: Final = {
    "string": "str",
    "bytes": "bytes",
    "bool": "bool",
    "int32": "int",
    "int64": "int",
    "double": "float",
    "time": "Time",
    "microTime": "MicroTime",
    "quantity": "Quantity",
    "intOrString": "IntOrString",
    "rawExtension": "JsonObjectField",
}


class Field(NamedTuple):
    """A field as ``types.json`` has it; ``typetable`` says what the parts mean."""

    name: str
    type: str
    number: int | list[int]
    flags: int
    extra: Mapping[str, Any] = {}


class Facts:
    """The recorded facts, and which module each type belongs to."""

    def __init__(self, types: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        self._types = types["types"]
        self._api_version = {
            model: api_version for api_version, kinds in types["kinds"].items() for model in kinds.values()
        }
        self._served = _served(resources)
        self.modules: dict[str, list[str]] = {}
        self.home: dict[str, str] = {}
        for module in MODULES:
            self.modules[module.name] = []
            for root in module.roots:
                model = f"{module.package}.{root}"
                if model not in self._types:
                    raise SystemExit(f"there is no {model} any more: take it out of tools/k8s/layout.py")
                self._settle(model, module)

    def fields(self, model: str) -> list[Field]:
        """The fields that the class declares: a kind has its head from ``Resource``."""
        inherited = ("apiVersion", "kind", "metadata") if self.is_kind(model) else ()
        return [Field(*row) for row in self._types[model]["fields"] if row[0] not in inherited]

    def is_kind(self, model: str) -> bool:
        return model in self._api_version

    def is_atomic(self, model: str) -> bool:
        return "atomic" in self._types[model]

    def keywords(self, model: str) -> str:
        """The class keywords of a kind."""
        group, _, version = self._api_version[model].rpartition("/")
        kind = class_name(model)
        plural, resource = self._served.get((group, version, kind)) or (PLURALS[kind], {})
        words = {"group": group} if group else {}
        words |= {"version": version, "plural": PLURALS.get(kind, plural)}
        text = [f"{key}={json.dumps(value)}" for key, value in words.items()]
        if not resource.get("namespaced", True):
            text.append('scope="Cluster"')
        if "shortNames" in resource:
            text.append(f"short_names={json.dumps(resource['shortNames'])}")
        if any(sub["name"] == "status" for sub in resource.get("subresources", ())):
            text.append("status=True")
        return ", ".join(text)

    def _settle(self, model: str, module: Module) -> None:
        """Give the model a module, after all it is made of: a default needs the class it is made by."""
        if model in self.home or model in META_CLASSES:
            return
        self.home[model] = module.name
        for field in self.fields(model):
            inner = element(field.type)
            if inner in self._types and inner not in FREE_FORM:
                self._settle(inner, module)
        self.modules[module.name].append(model)


def _served(resources: Mapping[str, Any]) -> dict[tuple[str, str, str], tuple[str, Mapping[str, Any]]]:
    """Group, version, kind -> path below the version and what discovery says; subresources yield."""
    found: dict[tuple[str, str, str], tuple[str, Mapping[str, Any]]] = {}
    below: dict[tuple[str, str, str], tuple[str, Mapping[str, Any]]] = {}
    for group in resources["groups"]:
        for version in group["versions"]:
            here = (group["group"], version["version"])
            for resource in version["resources"]:
                found[(*here, resource["kind"])] = (resource["name"], resource)
                for sub in resource.get("subresources", ()):
                    if "group" in sub:
                        path = f"{resource['name']}/{sub['name']}"
                        below[(sub["group"], sub["version"], sub["kind"])] = (path, {})
    return below | found


def class_name(model: str) -> str:
    """``io.k8s.api.core.v1.Pod`` -> ``Pod``."""
    return model.rpartition(".")[2]


def element(type: str) -> str:
    """The type inside lists and maps."""
    while type.startswith(("[]", "{}")):
        type = type[2:]
    return type


class Source:
    """The text of one module, and what it has to import."""

    def __init__(self, facts: Facts, module: Module) -> None:
        self._facts = facts
        self._module = module
        self._imports: dict[str, set[str]] = defaultdict(set)

    def text(self) -> str:
        models = self._facts.modules[self._module.name]
        classes = "\n\n\n".join(self._class(model) for model in models)
        names = sorted(class_name(model) for model in models)
        return (
            f'"""{self._module.about}\n\n'
            "Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.\n"
            '"""\n\n'
            "from __future__ import annotations\n\n"
            f"{import_lines(self._imports)}\n"
            f"__all__ = {json.dumps(names)}\n\n\n{classes}\n"
        )

    def _class(self, model: str) -> str:
        base = self._use("Resource" if self._facts.is_kind(model) else "Model")
        head = f"{base}, {self._facts.keywords(model)}" if self._facts.is_kind(model) else base
        if self._facts.is_atomic(model):
            head += f", rules=[{self._use('Atomic')}()]"
        fields = [self._field(field) for field in self._facts.fields(model)]
        return f"class {class_name(model)}({head}):\n    " + "\n    ".join(fields or ["pass"])

    def _field(self, field: Field) -> str:
        name = to_python(field.name)
        kind, default = self._type(field)
        if markers := [*self._markers(field)]:
            kind = f"{self._use('Annotated')}[{', '.join((kind, *markers))}]"
        if to_wire(name) != field.name:
            default = f"{self._use('field')}(name={json.dumps(field.name)}, default={default})"
        return f"{name}: {kind} = {default}"

    def _type(self, field: Field) -> tuple[str, str]:
        """The annotation without its markers, and the default."""
        pointer = field.flags & POINTER
        if not pointer:
            if field.type.startswith("[]"):
                return self._inner(field.type), self._omitempty("()")
            if field.type.startswith("{}"):
                return self._inner(field.type), self._omitempty(self._use("EMPTY_MAP"))
            if field.type == "string":
                return "str", self._omitempty('""')
            if field.type in ("time", "microTime"):
                return self._use(f"Optional{PLAIN[field.type]}"), self._use("UNSET")
            if field.type not in PLAIN and field.type not in FREE_FORM:
                kind = self._inner(field.type)
                return kind, self._omitempty(f"{kind}()")
        return f"{self._use('Maybe')}[{self._inner(field.type)}]", self._use("UNSET")

    def _inner(self, type: str) -> str:
        if type.startswith("[]"):
            return f"{self._use('Seq')}[{self._inner(type[2:])}]"
        if type.startswith("{}"):
            return f"{self._use('Map')}[str, {self._inner(type[2:])}]"
        if type == "strings":
            return f"{self._use('Seq')}[str]"
        if type in PLAIN or type in FREE_FORM:
            return self._use(PLAIN.get(type, "JsonObjectField"))
        if type not in self._facts.home:
            self._imports["quarterdeck.api.meta"].add(class_name(type))
        elif (home := self._facts.home[type]) != self._module.name:
            self._imports[f"quarterdeck.api.k8s.{home}"].add(class_name(type))
        return class_name(type)

    def _markers(self, field: Field) -> Iterable[str]:
        extra = field.extra
        if field.type in ("int32", "int64"):
            yield self._use(field.type.capitalize())
        if field.type == "rawExtension" or field.type in FREE_FORM:
            yield f"{self._use('Preserve')}()"
        if "atomic" in (extra.get("list"), extra.get("map"), extra.get("struct")):
            yield f"{self._use('Atomic')}()"
        if extra.get("list") == "set":
            yield f"{self._use('ListSet')}()"
        if extra.get("list") == "map":
            yield f"{self._use('ListMap')}({', '.join(json.dumps(key) for key in extra['keys'])})"
        if "default" in extra:
            yield f"{self._use('Default')}({extra['default']!r})"
        if field.flags & REQUIRED:
            yield f"{self._use('Required')}()"

    def _omitempty(self, value: str) -> str:
        return f"{self._use('omitempty')}({value})"

    def _use(self, word: str) -> str:
        if word in HOMES:
            self._imports[HOMES[word]].add(word)
        return word


def import_lines(imports: Mapping[str, Iterable[str]]) -> str:
    """Import statements in ruff's order: the standard library first, renamed names in lines of their own."""

    def block(modules: Iterable[str]) -> str:
        lines = []
        for module in sorted(modules):
            renamed = [name for name in imports[module] if " as " in name]
            plain = sorted(set(imports[module]) - set(renamed), key=_case)
            lines += [f"from {module} import {each}\n" for each in (", ".join(plain), *renamed) if each]
        return "".join(lines)

    ours = {module for module in imports if module.startswith("quarterdeck")}
    return "\n".join(filter(None, (block(imports.keys() - ours), block(ours))))


def _case(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def package_source(facts: Facts, version: str, release: str) -> str:
    """``__init__.py``: the names used most, each loaded with its module when it is asked for."""
    imports = {f"quarterdeck.api.k8s.{module}": names for module, names in EXPORTS.items()}
    places = {}
    for module, names in EXPORTS.items():
        for name in names:
            original, _, renamed = name.partition(" as ")
            places[renamed or original] = f"{module}.{original}"
    kinds = [f"{home}.{class_name(model)}" for model, home in facts.home.items() if facts.is_kind(model)]
    known = sorted(["KUBERNETES_VERSION", "k8s_scheme", *places], key=_case)
    minor = version.removeprefix("v").rpartition(".")[0]
    return PACKAGE.format(
        minor=minor,
        release=release,
        version=version,
        imports="".join(f"    {line}\n" for line in import_lines(imports).splitlines()),
        names=json.dumps(known),
        places=json.dumps(dict(sorted(places.items()))),
        kinds=f"({', '.join(json.dumps(kind) for kind in sorted(kinds))})",
    )


PACKAGE: Final = '''"""The built-in kinds of Kubernetes {minor} as classes.

Made by ``make kubernetes`` from k8s.io/api {release}: do not edit.

One module per API group (the core group is split by topic). The names used most can be imported from here; a
module is loaded when a name of it is. The classes declare every field, so that decoding stays in C; see
``docs/adr/0002-object-model.md`` for why they are generated source and not a model package.

``Event`` is the one of ``events.k8s.io``; the legacy one is ``CoreEvent``. All fields are optional in
Python, which lets one class serve objects and apply configurations alike; what the API requires is in
the ``Required`` markers and in the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from quarterdeck.api.scheme import Scheme

if TYPE_CHECKING:
{imports}
__all__ = {names}

KUBERNETES_VERSION: Final = "{version}"
"""The release whose types these are; the embedded server says it is this one."""

_PLACES: Final = {places}
"""What can be imported from here -> module and name."""

_KINDS: Final = {kinds}


def k8s_scheme() -> Scheme:
    """A new scheme with every built-in kind."""
    return Scheme(_load(kind) for kind in _KINDS)


def _load(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{{__name__}}.{{module}}"), name)


# A type checker reads the imports above; with this function it would believe in every name.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
        found = globals()[name] = _load(_PLACES[name])
        return found


def __dir__() -> list[str]:
    return sorted({{*globals(), *__all__}})
'''


def sources(version: str) -> dict[str, str]:
    """File name -> text, of every generated module."""
    types, resources = (json.loads((DATA / name).read_text()) for name in ("types.json", "resources.json"))
    facts = Facts(types, resources)
    release = f"v0.{version.partition('.')[2]}"
    texts = {f"{module.name}.py": Source(facts, module).text() for module in MODULES}
    texts["__init__.py"] = package_source(facts, version, release)
    return _formatted(texts)


def _formatted(texts: Mapping[str, str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in texts.items():
            Path(scratch, name).write_text(text)
        settings = f"--config={ROOT / 'pyproject.toml'}"
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", settings, scratch], check=True)
        return {name: Path(scratch, name).read_text() for name in texts}


def write(version: str) -> None:
    """Write the package; modules that are no longer generated go."""
    texts = sources(version)
    for path in OUTPUT.glob("*.py"):
        if path.name not in texts and path.stem not in HAND_WRITTEN:
            path.unlink()
    for name, text in texts.items():
        (OUTPUT / name).write_text(text)


def drift(version: str) -> list[str]:
    """The files that are not what the facts give."""
    texts = sources(version)
    there = {path.name for path in OUTPUT.glob("*.py") if path.stem not in HAND_WRITTEN}
    return [
        name
        for name in sorted(there | texts.keys())
        if name not in there or texts.get(name) != (OUTPUT / name).read_text()
    ]
