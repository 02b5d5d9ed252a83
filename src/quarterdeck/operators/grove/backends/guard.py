"""What a backend may not do. One that does gets an error; nothing it did is used."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from quarterdeck.api.codec import decode_json
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Call, Client, Response
from quarterdeck.client.wrapper import writing_through
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.loop.supervision import contained

from .contract import SchedulerBackend
from .error import BackendViolation

_OURS: Final = (names.PREFIX, "app.kubernetes.io/")


def prepared(backend: SchedulerBackend, pod: Pod) -> Pod:
    """The pod as the backend wants it; raises what it raises, or ``BackendViolation``."""
    draft = pod.draft()
    result: Any = backend.prepare_pod(draft)  # type: ignore[func-returns-value]  # others may not keep to it
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise BackendViolation(f"prepare_pod of backend {backend.name} must not be async")
    after = draft.done()
    for problem in _problems(pod, after):
        raise BackendViolation(f"prepare_pod of backend {backend.name} {problem}")
    return after


def _problems(before: Pod, after: Pod) -> list[str]:
    old, new = before.metadata, after.metadata
    found: list[str] = []
    if (old.name, old.generate_name, old.namespace) != (new.name, new.generate_name, new.namespace):
        found.append("must not change name or namespace")
    if old.owner_references != new.owner_references:
        found.append("must not change ownerReferences")
    gates = {gate.name for gate in after.spec.scheduling_gates}
    if any(gate.name == names.GATE for gate in before.spec.scheduling_gates) and names.GATE not in gates:
        found.append(f"must not remove the scheduling gate {names.GATE}")
    ours = {key: value for key, value in old.labels.items() if key.startswith(_OURS)}
    lost = [key for key, value in ours.items() if new.labels.get(key) != value]
    if lost:
        found.append(f"must not change or remove labels of Grove: {', '.join(sorted(lost))}")
    if not after.spec.scheduler_name:
        found.append("must leave spec.schedulerName non-empty")
    return found


def guarded_client(client: Client, backend: str) -> Client:
    """A client like ``client`` that does not write spec or status of PodGangs; metadata may be patched."""

    async def write(call: Call) -> Response:
        if call.gvk.group_kind == PodGang.type_info.gvk.group_kind and not _is_metadata_patch(call):
            raise BackendViolation(f"backend {backend} must not change spec or status of a PodGang")
        return await client.send(call)

    return writing_through(client, write)


def _is_metadata_patch(call: Call) -> bool:
    if call.verb not in ("patch", "apply") or call.subresource:
        return False
    if call.content_type == "application/json-patch+json":
        return all(str(step.get("path", "")).startswith("/metadata/") for step in decode_json(call.body))
    document = decode_json(call.body)
    return isinstance(document, dict) and document.keys() <= {"apiVersion", "kind", "metadata"}


async def awaited(result: Awaitable[None] | None) -> None:
    """The end of a hook, plain or async; one that was cancelled though nobody cancelled us has failed."""
    if result is None:
        return
    try:
        await result
    except BaseException as raised:  # noqa: BLE001  code of others
        raise contained(raised) from raised.__cause__
