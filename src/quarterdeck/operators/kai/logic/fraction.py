"""Which requests for parts of GPUs a pod may make.

A pod asks for a part of a GPU with annotations: a fraction of a device, or an amount of its memory, and
optionally of how many devices. It may not ask for whole GPUs as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai import names

BOTH: Final = "cannot have both GPU fraction request and whole GPU resource request/limit"
BOTH_WITH_MEMORY: Final = "cannot request both GPU and GPU memory"
FRACTION: Final = "gpu-fraction annotation value must be a positive number smaller than 1.0"
MEMORY: Final = "gpu-memory annotation value must be a positive integer greater than 0"
DEVICES_ALONE: Final = (
    "cannot request multiple fractional devices without specifying fraction portion or gpu-memory"
)
DEVICES: Final = "fraction count annotation value must be a positive integer greater than 0"

_DECIMAL: Final = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"\+?[0-9]+")


def violation(pod: Pod) -> str:
    """What is wrong with the GPU request of a pod; empty if nothing is."""
    annotations = pod.metadata.annotations
    fraction = annotations.get(names.GPU_FRACTION_ANNOTATION)
    memory = annotations.get(names.GPU_MEMORY_ANNOTATION)
    devices = annotations.get(names.GPU_FRACTION_DEVICES_ANNOTATION)
    wants_whole = _wants_whole_gpus(pod)
    if fraction is not None and wants_whole:
        return BOTH
    if memory is not None and (wants_whole or fraction is not None):
        return BOTH_WITH_MEMORY
    if devices is not None and fraction is None and memory is None:
        return DEVICES_ALONE
    if memory is not None and not _is_positive(memory):
        return MEMORY
    if fraction is not None and not _is_part(fraction):
        return FRACTION
    if devices is not None and not _is_positive(devices):
        return DEVICES
    return ""


def _wants_whole_gpus(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    lists: list[Mapping[str, object]] = []
    for container in containers:
        if container.resources:
            lists += (container.resources.requests, container.resources.limits)
    return any(names.GPU_RESOURCE in each for each in lists)


def _is_part(text: str) -> bool:
    return _DECIMAL.fullmatch(text) is not None and 0 < float(text) < 1


def _is_positive(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and int(text) > 0
