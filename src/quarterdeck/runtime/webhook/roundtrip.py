"""Does a conversion lose anything? Try it on objects nobody thought of.

``assert_roundtrip(conversion)`` generates objects of every version from their classes, converts them to each
other version and back, and fails with the first that came back different. Generation is seeded: a failure
is found again by the same call.
"""

import enum
import random
import string
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from quarterdeck.api import (
    UNSET,
    GroupVersionKind,
    Model,
    ObjectMeta,
    Quantity,
    Resource,
    Time,
    UnsetType,
    decode,
)
from quarterdeck.api.instant import MicroTime
from quarterdeck.runtime.webhook.conversion import Conversion

R = TypeVar("R", bound=Resource)
Make = Callable[[type[Resource], random.Random], Resource]
MAX_DEPTH: Final = 6
_WORDS: Final = ("alpha", "beta", "gamma", "delta", "omega", "zone-a", "10.0.0.0/24", "Ünit", "")


def assert_roundtrip(
    conversion: Conversion,
    *,
    examples: int = 100,
    seed: int = 0,
    make: Make | None = None,
    lossless: bool = True,
) -> None:
    """Convert generated objects there and back; raises ``AssertionError`` with the first difference.

    ``make`` builds an object of a class instead of ``generate``: needed where fields depend on each other.
    With ``lossless=False`` only spoke → hub → spoke must hold: the hub may know more than its spokes.
    Versions without a class are left out.
    """
    build = make if make is not None else generate
    classes = [version for version in conversion.versions if not isinstance(version, GroupVersionKind)]
    hub = conversion.hub
    for index in range(examples):
        for source in classes:
            for target in classes:
                if source is target or (source is hub and not lossless):
                    continue
                if not lossless and target is not hub:
                    continue
                rng = random.Random(f"{seed}/{index}/{source.type_info.version}")  # noqa: S311  tests
                _check(conversion, build(source, rng), target, seed, index)


def _check(conversion: Conversion, obj: Resource, target: type[Resource], seed: int, index: int) -> None:
    source = type(obj)
    there = _convert(conversion, obj, source, target)
    back = _convert(conversion, there, target, source)
    if back != obj:
        versions = f"{source.type_info.version} → {target.type_info.version} → {source.type_info.version}"
        raise AssertionError(
            f"{source.type_info.kind} {versions} is not the same object (seed {seed}, example {index})\n"
            f"before: {obj.to_bytes().decode()}\nbetween: {there.to_bytes().decode()}\n"
            f"after:  {back.to_bytes().decode()}"
        )


def _convert(conversion: Conversion, obj: Resource, source: type[Resource], target: type[R]) -> R:
    plan = conversion.plan(source.type_info.gvk.api_version, target.type_info.gvk.api_version)
    raw = plan.run(msgspec.Raw(obj.to_bytes()))
    if not isinstance(raw, bytes):
        raise TypeError("assert_roundtrip works on plain functions, not on async ones")
    return decode(raw, target)


def generate(kind: type[Resource], rng: random.Random) -> Resource:
    """An object of a class with random, plausible content: fields present or absent, lists of 0 to 3."""
    metadata = ObjectMeta(
        name=f"object-{rng.randrange(1000)}",
        namespace="team-a" if kind.type_info.is_namespaced else "",
        uid=f"{rng.getrandbits(128):032x}",
        resource_version=str(rng.randrange(1, 10**6)),
        generation=rng.randrange(1, 10),
        labels={"app": rng.choice(_WORDS[:5])} if rng.random() < 0.5 else {},
        annotations={"note": rng.choice(_WORDS)} if rng.random() < 0.5 else {},
    )
    fields = {
        info.name: value
        for info, hint in _fields_of(kind)
        if info.name not in ("api_version", "kind", "metadata")
        and (value := _field(info, hint, rng, 0)) is not UNSET
    }
    # Through the wire once: what an encoder leaves out must not count as lost.
    return decode(kind(metadata=metadata, **fields).to_bytes(), kind)


def _fields_of(kind: type[Model]) -> list[tuple[Any, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    infos: Any = msgspec.structs.fields(kind)  # type: ignore[arg-type]  # a Model is a struct
    return [(info, hints[info.name]) for info in infos if info.name != "unknown_fields"]


def _field(info: Any, hint: Any, rng: random.Random, depth: int) -> Any:
    is_optional = info.default is not msgspec.NODEFAULT or info.default_factory is not msgspec.NODEFAULT
    if is_optional and (depth >= MAX_DEPTH or rng.random() < 0.4):
        return UNSET
    return _value(hint, rng, depth)


def _value(hint: Any, rng: random.Random, depth: int) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _value(arguments[0], rng, depth)
    if origin in (Union, UnionType):
        real = [each for each in arguments if each not in (NoneType, UnsetType)]
        return _value(rng.choice(real), rng, depth)
    if origin is Literal:
        return rng.choice(arguments)
    if origin in (tuple, list):
        count = rng.randrange(4) if depth < MAX_DEPTH else 0
        return tuple(_value(arguments[0], rng, depth + 1) for _ in range(count))
    if isinstance(hint, type):
        return _of_type(hint, rng, depth)
    return UNSET


def _of_type(kind: type, rng: random.Random, depth: int) -> Any:
    if issubclass(kind, Model):
        values = {
            info.name: value
            for info, hint in _fields_of(kind)
            if (value := _field(info, hint, rng, depth + 1)) is not UNSET
        }
        return kind(**values)
    mapped = getattr(kind, "value_type", None)
    if mapped is not None:
        keys = rng.sample(string.ascii_lowercase, rng.randrange(3))
        return {key: _value(mapped, rng, depth + 1) for key in keys}
    if issubclass(kind, enum.Enum):
        return rng.choice(list(kind))
    simple = _SIMPLE.get(kind)
    return simple(rng) if simple is not None else UNSET


_SIMPLE: Final[dict[type, Callable[[random.Random], Any]]] = {
    bool: lambda rng: rng.random() < 0.5,
    int: lambda rng: rng.choice((0, 1, 2**31 - 1)),
    float: lambda rng: rng.choice((0.0, 0.5, 1.25)),
    str: lambda rng: rng.choice(_WORDS),
    bytes: lambda rng: rng.randbytes(4),
    Quantity: lambda rng: Quantity(rng.choice(("1", "500m", "2Gi"))),
    Time: lambda rng: Time.of_timestamp(1_700_000_000 + rng.randrange(1_000_000)),
    MicroTime: lambda rng: MicroTime.of_timestamp(1_700_000_000 + rng.randrange(1_000_000)),
}
