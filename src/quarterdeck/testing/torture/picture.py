"""The state of a cluster as far as two runs should agree on it. Pure.

A ``Picture`` leaves out what the server or chance decides (uids, versions, times, addresses, generated names)
and what the cluster's own controllers make, of which only the existence counts. ``learn`` finds what else
differs between two runs in which nothing went wrong; ``Expectation.differences`` compares with that left out.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

Json = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

NOISE: Final = frozenset(
    {
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        "nodes",
        "csinodes.storage.k8s.io",
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "resourceslices.resource.k8s.io",
    }
)
"""Resources that change by themselves, and say nothing about an operator."""
_CONSEQUENCES: Final = frozenset(
    {"replicasets.apps", "controllerrevisions.apps", "persistentvolumes", "volumeattachments.storage.k8s.io"}
)
"""What the cluster makes of what an operator made, and how many of them is the cluster's business."""
_SERVER_SET: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink",
     "deletionGracePeriodSeconds"}
)  # fmt: skip
_CLUSTER_SET: Final = {
    "pods": (("spec", "nodeName"), ("spec", "hostname")),
    "services": (("spec", "clusterIP"), ("spec", "clusterIPs"), ("spec", "healthCheckNodePort")),
    "persistentvolumeclaims": (("spec", "volumeName"),),
}
_ANNOTATIONS: Final = frozenset(
    {"deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration",
     "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
     "volume.kubernetes.io/selected-node"}
)  # fmt: skip
_BUILT_IN_STATUS: Final = frozenset(
    {
        "phase",
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "active",
        "succeeded",
        "failed",
    }
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUFFIX: Final = re.compile(r"[a-z0-9]{5}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MOST: Final = 20
"""Differences that are told."""


class StoredObject(NamedTuple):
    """An object as the server has it."""

    resource: str
    """``statefulsets.apps``"""
    document: Json

    @property
    def namespace(self) -> str:
        return str(self.document["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.document["metadata"]["uid"])

    @property
    def key(self) -> str:
        """``statefulsets.apps default/web``, without what chance decides."""
        metadata = self.document["metadata"]
        prefix = metadata.get("generateName", "")
        name = f"{prefix}*" if prefix and self.name.startswith(prefix) else _UUID.sub("*", self.name)
        return f"{self.resource} {self.namespace}/{name}"


class Picture(msgspec.Struct, frozen=True):
    """Objects by their key; more than one where names are generated."""

    objects: Mapping[str, list[Any]]


class Difference(msgspec.Struct, frozen=True):
    """One place at which a state is not as expected."""

    key: str
    path: str = ""
    expected: Any = None
    found: Any = None

    def __str__(self) -> str:
        if not self.path:
            return f"{self.key}: expected {self.expected}, found {self.found}"
        return f"{self.key} {self.path}: expected {_short(self.expected)}, found {_short(self.found)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else msgspec.json.encode(value).decode()
    return text if len(text) <= 160 else f"{text[:157]}..."


def take_picture(
    objects: Iterable[StoredObject],
    own: Collection[str],
    baseline: Collection[str],
    program: Collection[str] = (),
) -> Picture:
    """The state without what was there before (uids in ``baseline``), and without the ``program``'s own.

    ``own`` has the keys of what is looked into: the kinds under test and what the operator has written.
    """
    present = list(objects)
    names = {each.uid: f"uid of {each.key}" for each in present}
    generated = [key for key in own if key.endswith("*")]
    found: dict[str, list[Any]] = defaultdict(list)
    for each in present:
        if each.resource in NOISE or each.uid in baseline or _is_of_the_cluster(each):
            continue
        key = next((one for one in generated if _is_generated(each, one)), each.key)
        if key in program:
            continue
        if key in own:
            found[key].append(_normal(each, names, has_name=not key.endswith("*")))
        elif each.resource not in _CONSEQUENCES:
            found[key].append({"exists": True})
    return Picture({key: sorted(values, key=msgspec.json.encode) for key, values in sorted(found.items())})


def _is_generated(each: StoredObject, key: str) -> bool:
    """Whether an object has a name of that kind, also where it was made again under its old name."""
    prefix, name = key[:-1], f"{each.resource} {each.namespace}/{each.name}"
    return name.startswith(prefix) and _SUFFIX.fullmatch(name, len(prefix)) is not None


def _is_of_the_cluster(each: StoredObject) -> bool:
    """What every namespace has."""
    return (each.resource, each.name) in (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default"))


def _normal(each: StoredObject, names: Mapping[str, str], *, has_name: bool) -> Json:
    document = dict(each.document)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVER_SET}
    generation = document["metadata"].get("generation")
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = True
    if "annotations" in metadata:
        kept = {key: value for key, value in metadata["annotations"].items() if key not in _ANNOTATIONS}
        metadata["annotations"] = kept
    if not has_name:
        metadata = {key: value for key, value in metadata.items() if key not in ("name", "generateName")}
    document["metadata"] = {key: value for key, value in metadata.items() if value}
    for path in _CLUSTER_SET.get(each.resource, ()):
        inner = document.get(path[0])
        if isinstance(inner, dict) and path[1] in inner:
            document[path[0]] = {key: value for key, value in inner.items() if key != path[1]}
    status = document.get("status")
    if isinstance(status, dict):
        document["status"] = _normal_status(status, generation, is_built_in=_is_built_in(each.resource))
    normal: Json = _plain(document, names)
    return normal


def _is_built_in(resource: str) -> bool:
    _, _, group = resource.partition(".")
    return "." not in group or group.endswith(".k8s.io")


def _normal_status(status: Json, generation: Any, *, is_built_in: bool) -> Json:
    if is_built_in:
        return {key: value for key, value in status.items() if key in _BUILT_IN_STATUS and value}
    normal = dict(status)
    seen = normal.get("observedGeneration")
    if isinstance(seen, int):
        normal["observedGeneration"] = "current" if seen == generation else "behind"
    conditions = normal.get("conditions")
    if isinstance(conditions, list):
        normal["conditions"] = {
            str(each.get("type")): [each.get("status"), each.get("reason")]
            for each in conditions
            if isinstance(each, dict)
            and each.get("status") != "False"  # or it is not there, which is the same
        }
    return normal


def _plain(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each, names) for key, each in value.items()}
    if isinstance(value, list):
        items = [_plain(each, names) for each in value]
        for key in ("name", "type", "ip"):
            if items and all(isinstance(each, dict) and isinstance(each.get(key), str) for each in items):
                return sorted(items, key=lambda each: str(each[key]))
        return items
    if isinstance(value, str) and len(value) >= len("2030-01-01T00:00:00Z"):
        value = _TIME.sub("<time>", value)
        return _UUID.sub(lambda match: f"<{names.get(match[0], 'uid of nothing that exists')}>", value)
    return value


class Expectation(msgspec.Struct, frozen=True):
    """A state that runs should come to, and what of it is left to chance."""

    picture: Picture
    chance: Mapping[str, frozenset[Path]] = {}
    """Paths that differ between two undisturbed runs, by key."""
    counted: Mapping[str, int] = {}
    """Resources whose names differ: their number; -1 where that differs, too."""

    def differences(self, found: Picture) -> list[Difference]:
        """Where another state is not like it."""
        mine, theirs = self.picture.objects, found.objects
        result = []
        for key in sorted({*mine, *theirs}):
            if key.split(" ", 1)[0] in self.counted:
                continue
            expected, there = mine.get(key, []), theirs.get(key, [])
            if len(expected) != len(there):
                result.append(Difference(key, "", _count(expected), _count(there)))
                continue
            chance = self.chance.get(key, frozenset())
            for want, have in zip(expected, there, strict=True):
                for path, one, other in _differences(want, have):
                    if not any(path[: len(each)] == each for each in chance):
                        result.append(Difference(key, ".".join(path), one, other))
        for resource, number in self.counted.items():
            count = _number(found, resource)
            if number >= 0 and count != number:
                result.append(Difference(resource, "", number, count))
        return result[:_MOST]


def _count(objects: list[Any]) -> str:
    return {0: "nothing", 1: "the object"}.get(len(objects), f"{len(objects)} objects")


def _number(picture: Picture, resource: str) -> int:
    return sum(len(each) for key, each in picture.objects.items() if key.split(" ", 1)[0] == resource)


def _differences(one: Any, other: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differences(one.get(key), other.get(key), (*path, str(key)))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, (*path, str(place)))
    elif one != other:
        yield path, one, other


def learn(one: Picture, other: Picture) -> Expectation:
    """What two undisturbed runs have in common."""
    unstable = {key.split(" ", 1)[0] for key in {*one.objects} ^ {*other.objects}}
    counted = {
        resource: _number(one, resource) if _number(one, resource) == _number(other, resource) else -1
        for resource in unstable
    }
    chance = {}
    for key in {*one.objects} & {*other.objects}:
        mine, theirs = one.objects[key], other.objects[key]
        if len(mine) != len(theirs):
            counted[key.split(" ", 1)[0]] = -1
            continue
        paths = [
            path for left, right in zip(mine, theirs, strict=True) for path, *_ in _differences(left, right)
        ]
        if paths:
            chance[key] = frozenset(paths)
    return Expectation(one, chance, counted)
