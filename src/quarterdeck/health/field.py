"""Fields of objects as they are on the wire, from any version of their project: what is missing is empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from quarterdeck.api import Quantity

Json: TypeAlias = dict[str, Any]
ENDED: Final = ("Succeeded", "Failed")
_GPU: Final = "/gpu"
_POD_GROUP: Final = "pod-group-name"
_FRACTION: Final = "gpu-fraction"
_JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
_POD_GANG: Final = "grove.io/podgang"


def key_of(obj: Json) -> str:
    """``namespace/name``, or the name of what has no namespace."""
    metadata = of(obj, "metadata")
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata.get('name', '')}" if namespace else str(metadata.get("name", ""))


def of(obj: Mapping[Any, Any], name: str) -> Json:
    """A field that is an object; empty if it is absent or something else."""
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def items(obj: Mapping[Any, Any], name: str) -> list[Json]:
    """A field that is a list of objects."""
    found = obj.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def condition(obj: Json, kind: str) -> Json:
    """The condition of this type, or nothing."""
    return next((each for each in items(of(obj, "status"), "conditions") if each.get("type") == kind), {})


def is_true(obj: Json, kind: str) -> bool:
    """Whether a condition is there and true."""
    return condition(obj, kind).get("status") == "True"


def moment(text: str) -> datetime | None:
    """A time of the API; ``None`` if it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def age(time: str, now: datetime) -> str:
    """How long ago a moment was, in the largest unit that says something; empty if it is none or to come."""
    then = moment(time)
    if then is None or then > now:
        return ""
    seconds = int((now - then).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def number(value: Any) -> float:
    """A quantity as a number; 0 if it is none."""
    if value is None:
        return 0.0
    try:
        return Quantity(value).nano / 1e9
    except (ValueError, TypeError):
        return 0.0


def gpus(amounts: Json) -> float:
    """The GPUs among amounts of resources, of whichever vendor."""
    return sum(number(value) for name, value in amounts.items() if name.endswith(_GPU))


def pod_requests(obj: Json) -> dict[str, float]:
    """What the containers of a pod ask for together; a limit counts where there is no request."""
    found: dict[str, float] = {}
    for container in items(of(obj, "spec"), "containers"):
        resources = of(container, "resources")
        for name, value in {**of(resources, "limits"), **of(resources, "requests")}.items():
            found[name] = found.get(name, 0.0) + number(value)
    return found


def pod_gpus(obj: Json) -> float:
    """The GPUs that a pod asks for, also a part of one."""
    whole = sum(value for name, value in pod_requests(obj).items() if name.endswith(_GPU))
    return whole or number(of(of(obj, "metadata"), "annotations").get(_FRACTION))


def gang_of(obj: Json) -> str:
    """The gang of a pod; a pod that is in none is counted to its controller, or is alone."""
    metadata = of(obj, "metadata")
    annotations, labels = of(metadata, "annotations"), of(metadata, "labels")
    name = annotations.get(_POD_GROUP) or labels.get(_POD_GANG) or labels.get(_JOB_SET)
    if not name:
        owners = [each for each in items(metadata, "ownerReferences") if each.get("controller")]
        name = owners[0].get("name") if owners else metadata.get("name", "")
    return f"{metadata.get('namespace', '')}/{name}"


def plural(count: float, noun: str) -> str:
    """``1 pod``, ``2 pods``, ``3 GPUs``."""
    text = f"{count:g}"
    if count == 1:
        return f"{text} {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{text} {noun[:-1]}ies"
    return f"{text} {noun}{'es' if noun.endswith(('s', 'ch', 'x')) else 's'}"
