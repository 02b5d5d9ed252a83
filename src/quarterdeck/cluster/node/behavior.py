"""How a simulated pod behaves.

A pod says so by annotations (``names``). What it does not say comes from the settings, by the name of its Job
first. What they do not say either is plain where the only container is told ``sleep 5``, ``true``, ``false``
or ``sh -c "exit 3"``, or is of an image called ``pause``; otherwise it is usual: pods of Jobs run one second
and succeed, all others run for ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from quarterdeck.api import controller_of, value_or
from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.node import names

T = TypeVar("T")
_JOB_NAME: Final = "batch.kubernetes.io/job-name"
_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
_JOB_RUN_SECONDS: Final = 1.0
_SLEEP: Final = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[smhd]?)", re.ASCII)
_EXIT: Final = re.compile(r"\s*exit\s+(\d{1,3})\s*;?\s*", re.ASCII)
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod does; seconds throughout, infinity where something never happens."""

    start_seconds: float = 0.0
    init_seconds: float = 0.0
    ready_seconds: float = 0.0
    run_seconds: float = math.inf
    exit_code: int = 0
    stop_seconds: float = 0.0
    mistakes: tuple[str, ...] = ()
    """Annotations that make no sense; they are as if absent."""


class Behavior(msgspec.Struct, frozen=True, kw_only=True):
    """What pods do that do not say it themselves."""

    run_seconds: float | None = None
    """How long containers run; ``None``: as usual, infinity: for ever."""
    exit_code: int | None = None
    """What they exit with; ``None``: as usual, 0."""
    start_seconds: float = 0.0
    ready_seconds: float = 0.0
    stop_seconds: float = 0.0
    run_seconds_by_job: Mapping[str, float] = {}
    """By the name of the ReplicatedJob, or of the Job where there is none."""
    exit_code_by_job: Mapping[str, int] = {}
    fail_first_attempts: int = 0
    """Attempts that exit with 1. Pods of a JobSet count restarts of the set, others those of containers."""
    restart_backoff: float = 10.0
    """Wait before a container is restarted the second time, doubled from then on; the first is at once."""
    restart_backoff_cap: float = 300.0

    def script(self, pod: Pod) -> Script:
        """What a pod does."""
        reader = _Reader(pod)
        job = _job_name(pod)
        usual = _plain(pod) or _Plain(_JOB_RUN_SECONDS if _is_of_job(pod) else math.inf)
        run = self.run_seconds_by_job.get(
            job, usual.run_seconds if self.run_seconds is None else self.run_seconds
        )
        code = self.exit_code_by_job.get(job, usual.exit_code if self.exit_code is None else self.exit_code)
        failing = reader.read(names.FAIL_FIRST_ATTEMPTS, int, self.fail_first_attempts)
        return Script(
            start_seconds=reader.read(names.START_SECONDS, _span, self.start_seconds),
            init_seconds=reader.read(names.INIT_SECONDS, _span, 0.0),
            ready_seconds=reader.read(names.READY_SECONDS, _span, self.ready_seconds),
            run_seconds=reader.read(names.RUN_SECONDS, _span, run),
            exit_code=1 if _attempt(pod) < failing else reader.read(names.EXIT_CODE, int, code),
            stop_seconds=reader.read(names.STOP_SECONDS, _span, self.stop_seconds),
            mistakes=tuple(reader.mistakes),
        )

    def restart_delay(self, restarts: int) -> float:
        """Seconds before a container that was restarted so often is restarted again."""
        if restarts == 0:
            return 0.0
        return min(self.restart_backoff * 2.0 ** min(restarts - 1, 32), self.restart_backoff_cap)


class _Reader:
    def __init__(self, pod: Pod) -> None:
        self._annotations: Final = pod.metadata.annotations
        self.mistakes: Final[list[str]] = []

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self._annotations.get(name)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError:
            self.mistakes.append(f"{name}={text}")
            return default


def _span(text: str) -> float:
    if text in (names.FOREVER, names.NEVER):
        return math.inf
    span = float(text)
    if not 0 <= span < math.inf:
        raise ValueError(text)
    return span


class _Plain(NamedTuple):
    """What the words of a container say that it does."""

    run_seconds: float
    exit_code: int = 0


def _plain(pod: Pod) -> _Plain | None:
    """What a pod does whose only container does what its words say; ``None`` if they say nothing."""
    if len(pod.spec.containers) != 1:
        return None
    [container] = pod.spec.containers
    words = (*container.command, *container.args)
    if not words:
        return _Plain(math.inf) if _image_name(container.image) == "pause" else None
    match (words[0].rpartition("/")[2], *words[1:]):
        case ("sleep", time) if found := _SLEEP.fullmatch(time):
            return _Plain(float(found["number"]) * _UNITS[found["unit"]])
        case ("sleep", "infinity" | "inf"):
            return _Plain(math.inf)
        case ("true",):
            return _Plain(0.0)
        case ("false",):
            return _Plain(0.0, 1)
        case ("sh" | "bash", "-c", script) if found := _EXIT.fullmatch(script):
            return _Plain(0.0, int(found[1]))
    return None


def _image_name(image: str) -> str:
    """The last word of its path, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _is_of_job(pod: Pod) -> bool:
    owner = controller_of(pod.metadata.owner_references)
    return owner is not None and owner.kind == "Job"


def _job_name(pod: Pod) -> str:
    labels = pod.metadata.labels
    return labels.get(_REPLICATED_JOB) or labels.get(_JOB_NAME, "")


def _attempt(pod: Pod) -> int:
    restarts = pod.metadata.labels.get(_RESTART_ATTEMPT, "")
    if restarts.isdigit():
        return int(restarts)
    return max((value_or(each.restart_count, 0) for each in pod.status.container_statuses), default=0)
