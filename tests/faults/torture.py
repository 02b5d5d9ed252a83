"""Our own operators under torture, in this process and on virtual time::

    python -m tests.faults.torture jobset --runs 200 --seed 3
    python -m tests.faults.torture trainer --replay 'kill@apply,jobsets.jobset.x-k8s.io,1'

Each has the role that is derived for it, on a cluster with simulated nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import Any, Final

from quarterdeck.api.manifest import load_documents
from quarterdeck.runtime.operator import installed_operators
from quarterdeck.testing.torture import (
    PATTERNS,
    Campaign,
    Pace,
    Report,
    Scene,
    Seed,
    Workload,
    as_text,
    changes_of,
    operator_subject,
    schema_of,
    usual_workload,
)

Json = dict[str, Any]
EXAMPLES: Final = Path(__file__).parents[2] / "examples"


def documents(path: str) -> list[Json]:
    return list(load_documents((EXAMPLES / path).read_bytes()))


def named(path: str, name: str) -> Json:
    return next(each for each in documents(path) if each["metadata"]["name"] == name)


def _nodegroup() -> tuple[tuple[str, ...], list[Json], Workload]:
    sample = named("concert/2-nodes.yaml", "h100")
    edits = [{"spec": {"cloudInstances": {"minPerZone": count, "maxPerZone": 3}}} for count in (3, 2)]
    return ("nodegroup",), [], usual_workload(sample, edits)


def _ipam() -> tuple[tuple[str, ...], list[Json], Workload]:
    return (
        ("ipam",),
        documents("ipam/1-world.yaml"),
        usual_workload(named("ipam/3-clusters.yaml", "training-a")),
    )


def _jobset() -> tuple[tuple[str, ...], list[Json], Workload]:
    sample = named("jobset/1-train.yaml", "train")
    return ("jobset",), [], usual_workload(sample, [{"spec": {"suspend": on}} for on in (True, False)])


def _trainer() -> tuple[tuple[str, ...], list[Json], Workload]:
    sample = named("trainer/2-jobs.yaml", "mnist")
    edits = [{"spec": {"suspend": on}} for on in (True, False)]
    runtime = named("trainer/1-runtimes.yaml", "torch-distributed")
    return ("trainer", "jobset"), [runtime], usual_workload(sample, edits)


def _grove() -> tuple[tuple[str, ...], list[Json], Workload]:
    sample = documents("grove/2-simple.yaml")[-1]
    edits = [{"spec": {"replicas": count}} for count in (2, 1)]
    return ("grove",), [], usual_workload(sample, edits)


HOME: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "quarterdeck-system"}}
WITHOUT: Final = {"ipam": ("neighbour", "occupy")}
"""Patterns that find what is meant: claims of one clusterID share a Subnet, and one that exists is theirs."""
STORIES: Final = {
    "nodegroup": _nodegroup,
    "ipam": _ipam,
    "jobset": _jobset,
    "trainer": _trainer,
    "grove": _grove,
}


def campaign(name: str, **options: Any) -> Campaign:
    """Everything that is tried with one operator."""
    names, install, workload = STORIES[name]()
    operators = [installed_operators()[each] for each in names]
    definitions = [definition for each in operators for definition in each.definitions()]
    sample = workload.steps[0].object
    scene = Scene(
        subject=operator_subject(*operators, is_embedded=name == "nodegroup"),
        crds=definitions,
        install=[HOME, *install],
        is_admin=False,
        pace=Pace.virtual(),
        is_virtual=True,
        changes=changes_of(schema_of(definitions, sample), sample),
    )
    patterns = [each for each in options.pop("patterns", PATTERNS) if each not in WITHOUT.get(name, ())]
    return Campaign(scene, workload, patterns=patterns, **options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", choices=STORIES)
    parser.add_argument("--runs", type=int, default=0, help="at most (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=600.0, help="seconds")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--replay", default="")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)

    def tell(report: Report, doing: str) -> None:
        print(f"{report.runs}/{report.planned} {doing}", file=sys.stderr)

    trial = campaign(
        arguments.operator,
        budget=arguments.budget,
        seed=arguments.seed,
        most_runs=arguments.runs,
        patterns=arguments.patterns.split(","),
        progress=tell,
    )
    if arguments.replay:
        report = asyncio.run(trial.replay(Seed.parse(arguments.replay)))
    else:
        report = asyncio.run(trial.run())
    print(as_text(report, f"python -m tests.faults.torture {arguments.operator} --replay %s"))
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
