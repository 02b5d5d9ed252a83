"""The runtime that a TrainJob keeps: what is kept of it, and what is refused when it is read."""

from __future__ import annotations

import pytest

from quarterdeck.operators.trainer.logic.snapshot import KEY, InvalidSnapshot, read_snapshot, snapshot_text
from quarterdeck.operators.trainer.types import RuntimeRef

from .trainerkit import cluster_runtime, runtime

SOURCE = cluster_runtime(runtime(), "torch", team="a")
REF = RuntimeRef(name="torch")
TEXT = snapshot_text(SOURCE)


def test_what_was_kept_is_read_as_it_was_without_its_history() -> None:
    grown = SOURCE.evolve(metadata=SOURCE.metadata.evolve(uid="u", resource_version="7", generation=3))
    assert snapshot_text(grown) == TEXT
    assert TEXT.startswith("apiVersion: ")
    found = read_snapshot({KEY: TEXT}, REF)
    assert found == SOURCE
    assert found.metadata.labels == {"team": "a"}


@pytest.mark.parametrize(
    ("data", "ref", "problem"),
    [
        ({}, REF, 'missing "runtime" data key'),
        ({KEY: "a: ["}, REF, "unable to read it"),
        ({KEY: ""}, REF, "there is no runtime in it"),
        ({KEY: "kind: ConfigMap"}, REF, "there is no runtime in it"),
        ({KEY: "[1]"}, REF, "there is no runtime in it"),
        ({KEY: TEXT}, RuntimeRef(name="other"), "refers to the wrong runtime"),
        ({KEY: TEXT}, RuntimeRef(name="torch", kind="TrainingRuntime"), "refers to the wrong runtime"),
    ],
)
def test_what_is_not_the_runtime_of_the_job_is_refused(
    data: dict[str, str], ref: RuntimeRef, problem: str
) -> None:
    with pytest.raises(InvalidSnapshot, match=f"invalid runtime snapshot: .*{problem}"):
        read_snapshot(data, ref)
