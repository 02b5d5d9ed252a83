"""Indexes kept over cached kinds."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api import Key
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names
from quarterdeck.runtime.cache import Index, label
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.scheduler.intake import gpu_groups_of

from .logic.grouping.grove import POD_GANG_LABEL
from .types import BindRequest, PodGroup, Queue


class _Metadata(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, gc=False):
    metadata: _Metadata


_annotated: Final = msgspec.json.Decoder(_Annotated)


def pod_group_of(entry: Entry) -> Key | None:
    """The PodGroup that a cached pod says it belongs to."""
    name = (_annotated.decode(entry.raw).metadata.annotations or {}).get(names.POD_GROUP_ANNOTATION)
    return Key(entry.namespace, name) if name else None


def _pod_group_names(entry: Entry) -> tuple[str, ...]:
    group = pod_group_of(entry)
    return (group.name,) if group is not None else ()


PODS_BY_GROUP: Final[Index[Pod]] = Index("pod-group", of_entry=_pod_group_names)
"""Pods by the name of their PodGroup; ask with its namespace."""
PODS_BY_GPU_GROUP: Final[Index[Pod]] = Index("gpu-group", of_entry=lambda entry: gpu_groups_of(entry.labels))
"""Pods by the shared GPUs that they hold or reserve."""
REQUESTS_BY_GPU_GROUP: Final[Index[BindRequest]] = Index(
    "gpu-groups", of_object=lambda request: tuple(request.spec.selected_gpu_groups)
)
"""BindRequests by the shared GPUs that they give."""
PODS_BY_GANG: Final = label(POD_GANG_LABEL)
"""Pods by the name of their PodGang."""
GROUPS_BY_QUEUE: Final[Index[PodGroup]] = Index("queue", path="spec.queue")
"""PodGroups by the name of their Queue."""
QUEUES_BY_PARENT: Final[Index[Queue]] = Index("parent-queue", path="spec.parentQueue")
"""Queues by the name of their parent."""
