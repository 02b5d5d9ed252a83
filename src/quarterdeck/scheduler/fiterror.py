"""Why jobs and pods were not placed, in the words that users see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quarterdeck.scheduler.decision import QueueDetails
from quarterdeck.scheduler.model.subgroup import DEFAULT_LEAF
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import UNLIMITED

POD_SCHEDULING_ERRORS: Final = "PodSchedulingErrors"
QUEUE_DOES_NOT_EXIST: Final = "QueueDoesNotExist"
OVER_LIMIT: Final = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA: Final = "NonPreemptibleOverQuota"
PREEMPTION_DELAY_NOT_ELAPSED: Final = "PreemptionDelayNotElapsed"
NOT_ENOUGH_RESOURCES: Final = "Not enough resources for the workload"
UNABLE_TO_SCHEDULE_POD: Final = "Unable to schedule pod"
_UNABLE_TO_SCHEDULE_GROUP: Final = "Unable to schedule podgroup"
_NO_NODES: Final = "no nodes with enough resources were found"
_SEPARATOR: Final = ". \n"

CORES: Final = 1000
"""Milli-cores in a core."""
GIGABYTES: Final = 10**9

_NOUNS: Final = {"CPU cores": "resources", "memory": "resources"}
"""KAI-Scheduler's number of the noun, for users who match on texts; it is singular for all others."""


class FitError(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a job was not placed."""

    reason: str
    messages: tuple[str, ...]
    details: tuple[str, ...] = ()
    """The same at length; the messages themselves if empty."""
    subgroup: str = ""
    domain: str = ""
    """The topology domain that was too small."""
    queue: QueueDetails | None = None

    @property
    def detail(self) -> str:
        text = ", ".join(self.details or self.messages)
        if self.subgroup not in ("", DEFAULT_LEAF):
            text = f"subgroup {self.subgroup}: {text}"
        return f"<{self.domain}>: {text}" if self.domain else text


def _overall(errors: Sequence[FitError]) -> str:
    return errors[0].reason if len(errors) == 1 else _UNABLE_TO_SCHEDULE_GROUP


def summary(errors: Sequence[FitError]) -> str:
    """The message of a job: its reason, then each distinct message with how often it occurred."""
    counts = Counter(message for error in errors for message in error.messages)
    texts = sorted(f"{count} {message}" if count > 1 else message for message, count in counts.items())
    return f"{_overall(errors)}: {_SEPARATOR.join(texts)}." if texts else _overall(errors)


def detailed_message(errors: Sequence[FitError]) -> str:
    """The message of a job with every error at length."""
    details = sorted(f"\n{error.detail}." for error in errors)
    return f"\n{_overall(errors)}.{''.join(details)}"


def pod_message(reasons_by_node: Mapping[str, Sequence[str]]) -> str:
    """Why no node took a pod: how many nodes had each reason."""
    counts = Counter(reason for reasons in reasons_by_node.values() for reason in reasons)
    texts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"{_NO_NODES}: {_SEPARATOR.join(texts)}." if texts else _NO_NODES


def amount_text(amount: float, unit: float = 1) -> str:
    """A number with at most three decimals, cut off; unlimited has no number."""
    if amount == UNLIMITED:
        return "Unlimited"
    text = f"{amount / unit:.6f}"
    return text[:-3].rstrip("0").rstrip(".")


def amounts_text(amounts: tuple[float, float, float]) -> str:
    """CPU, memory and GPUs as queues count them."""
    cpu, memory, gpu = amounts
    return (
        f"GPU: {amount_text(gpu)}, CPU: {amount_text(cpu, CORES)} (cores), "
        f"memory: {amount_text(memory, GIGABYTES)} (GB)"
    )


def missing_in_domain(domain: str, needed: Resources, free: Resources) -> tuple[list[str], list[str]]:
    """What a domain lacks, in short and at length."""
    lacking: list[tuple[str, str, str]] = []
    if needed.cpu > free.cpu:
        lacking.append(("CPU cores", amount_text(needed.cpu, CORES), amount_text(free.cpu, CORES)))
    if needed.memory > free.memory:
        texts = amount_text(needed.memory, GIGABYTES), amount_text(free.memory, GIGABYTES)
        lacking.append(("memory", *texts))
    if needed.gpu > free.gpu:
        lacking.append(("GPUs", f"{needed.gpu:.3g}", f"{free.gpu:.3g}"))
    available = dict(free.scalars)
    for name, amount in needed.scalars:
        if amount > available.get(name, 0):
            lacking.append((name, str(amount), str(available.get(name, 0))))
    short = [f"node-group(s) didn't have enough resources: {name}" for name, _, _ in lacking]
    long = [
        f"{domain} didn't have enough {_NOUNS.get(name, 'resource')}: {name}, "
        f"requested: {wants}, available: {has}"
        for name, wants, has in lacking
    ]
    return short, long


def lacking_resources(names: Iterable[str]) -> tuple[str, ...]:
    """The reasons of a node that has not enough of some resources."""
    return tuple(f"node(s) didn't have enough resources: {name}" for name in names)
