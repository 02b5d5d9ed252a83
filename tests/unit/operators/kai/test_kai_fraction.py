"""Which requests for parts of GPUs are admitted."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.kai.logic import fraction
from quarterdeck.operators.kai.logic.fraction import violation

GPU = {"nvidia.com/gpu": "1"}


def pod(resources: dict[str, Any] | None = None, **annotations: str) -> Pod:
    named = {key.replace("_", "-"): value for key, value in annotations.items()}
    container = {"name": "c", "image": "x", **({"resources": resources} if resources else {})}
    return Pod.from_dict(
        {"metadata": {"name": "p", "annotations": named}, "spec": {"containers": [container]}}
    )


@pytest.mark.parametrize(
    "given",
    [
        pod(),
        pod({"limits": GPU}),
        pod({"limits": {"cpu": "1"}}, gpu_fraction="0.5"),
        pod(gpu_fraction="0.001"),
        pod(gpu_fraction=".5"),
        pod(gpu_fraction="5e-1", gpu_fraction_num_devices="2"),
        pod(gpu_memory="2048", gpu_fraction_num_devices="1"),
    ],
)
def test_admitted(given: Pod) -> None:
    assert violation(given) == ""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (pod({"limits": GPU}, gpu_fraction="0.5"), fraction.BOTH),
        (pod({"requests": GPU}, gpu_fraction="0.5"), fraction.BOTH),
        (pod({"limits": GPU}, gpu_fraction="0.5", gpu_memory="1"), fraction.BOTH),
        (pod({"limits": GPU}, gpu_memory="100"), fraction.BOTH_WITH_MEMORY),
        (pod(gpu_fraction="0.5", gpu_memory="100"), fraction.BOTH_WITH_MEMORY),
        *(
            (pod(gpu_fraction=text), fraction.FRACTION)
            for text in ("0", "1", "1.5", "-0.5", "half", "", "nan")
        ),
        *((pod(gpu_memory=text), fraction.MEMORY) for text in ("0", "-1", "1.5", "1Gi", "", "٣")),
        (pod(gpu_fraction_num_devices="2"), fraction.DEVICES_ALONE),
        (pod(gpu_fraction_num_devices="none"), fraction.DEVICES_ALONE),
        *(
            (pod(gpu_fraction="0.5", gpu_fraction_num_devices=text), fraction.DEVICES)
            for text in ("0", "-2", "1.0", "two", "")
        ),
        (pod(gpu_fraction="2", gpu_fraction_num_devices="0"), fraction.FRACTION),
    ],
)
def test_refused(given: Pod, text: str) -> None:
    assert violation(given) == text


def test_whole_gpus_of_an_init_container_count() -> None:
    given = Pod.from_dict(
        {
            "metadata": {"name": "p", "annotations": {"gpu-fraction": "0.5"}},
            "spec": {
                "containers": [{"name": "c"}],
                "initContainers": [{"name": "i", "resources": {"limits": GPU}}],
            },
        }
    )
    assert violation(given) == fraction.BOTH
