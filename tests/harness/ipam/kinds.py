"""The kinds of ipam cases.

Cases with steps run the operator against the server under test, over the wire, in namespaces of their
own. Cases about the PoolStatus queue, about CIDRs and about alert rules need no server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

import yaml

from quarterdeck.api import Key
from quarterdeck.operators.ipam.logic import network
from quarterdeck.operators.ipam.logic.statuscalc import normalize_size_key
from tests.harness.case import Case, CaseFailure, expect_equal
from tests.harness.kind import KnownWords
from tests.harness.matching import mismatches
from tests.harness.registry import EXCLUSIVE, Kind
from tests.harness.run import Run
from tests.harness.words import Tagged, refuse_unknown, words

from .casecluster import CaseCluster, cluster_for
from .expect import METRIC, THEN, Evidence, check, metric_failures
from .fault import FAULT
from .promql import Store, firing, seconds
from .queue import PoolStatusSubject, QueueRun, delays_at_once, next_delay
from .step import STEP, Steps

Json = dict[str, Any]

_LONG: Final = ("stress", "preload")
_KEY: Final = words("namespace", "name")
_BOUNDS: Final = words("atLeast", "atMost")
_RULES: Final = files("quarterdeck.operators.ipam") / "monitoring" / "rules.yaml"


class _IpamKind(KnownWords):
    """What the kinds share: they run beside anything, and every word is understood."""

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        self.check(case, run)

    def check(self, case: Case, run: Run) -> None:
        raise NotImplementedError


class StepKind(_IpamKind):
    """Objects, steps, and what holds after them."""

    given = words(
        "objects",
        "controllerInstances",
        faults=[FAULT],
        admissionHook=frozenset({"on", "off"}),
        leaderElection=frozenset({False}),  # with it, all instances but one would only wait
    )
    when = words(steps=[STEP])
    then = THEN

    def lane(self, case: Case) -> str:
        measured = any(step.get("op") == "measure_per_event" for step in case.when.get("steps") or ())
        return EXCLUSIVE if measured else ""

    def check(self, case: Case, run: Run) -> None:
        with cluster_for(case, run) as cluster:
            if self._needs_controllers(case):
                cluster.start()
            steps = Steps(cluster, is_long=case.kind in _LONG)
            for document in case.given.get("objects") or ():
                answer = cluster.create(document)
                if answer.status != 201:
                    raise CaseFailure(f"given {document['kind']}: {answer.status}: {answer.text()}")
            if case.given.get("admissionHook") == "on":
                steps.settle()
            self._run_steps(case, cluster, steps)

    def _needs_controllers(self, case: Case) -> bool:
        return case.kind != "admission" or case.given.get("admissionHook") == "on"

    def _run_steps(self, case: Case, cluster: CaseCluster, steps: Steps) -> None:
        before = cluster.samples()
        for step in case.when["steps"]:
            settled = steps.has_settled
            steps.run(step)
            if case.kind == "fault" and steps.has_settled and not settled:
                before = cluster.samples()
        check(case.then, Evidence(cluster, steps.responses, before, cluster.samples(), steps.ratio))


class DefinitionKind(_IpamKind):
    """The definition as it is served."""

    given = words("crd")
    when = words(steps=[Tagged("op", {"get_crd": words()})])
    then = words(
        crd=words(
            "group", "kind", "plural", "singular", "listKind", "scope", "shortNames", "versions",
            "storageVersion", "statusSubresource", "printerColumns",
        )
    )  # fmt: skip

    def check(self, case: Case, run: Run) -> None:
        with cluster_for(case, run) as cluster:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{case.given['crd']}"
            spec = cluster.request("GET", path).json()["spec"]
        version = next(each for each in spec["versions"] if each["storage"])
        found = {
            "group": spec["group"],
            "kind": spec["names"]["kind"],
            "plural": spec["names"]["plural"],
            "singular": spec["names"]["singular"],
            "listKind": spec["names"]["listKind"],
            "scope": spec["scope"],
            "shortNames": spec["names"].get("shortNames") or [],
            "versions": [each["name"] for each in spec["versions"]],
            "storageVersion": version["name"],
            "statusSubresource": "status" in (version.get("subresources") or {}),
            "printerColumns": [each["name"] for each in version.get("additionalPrinterColumns") or ()],
        }
        wanted = case.then["crd"]
        expect_equal("crd", wanted, {key: found.get(key) for key in wanted})


class RequeueKind(_IpamKind):
    """One event, and the keys it makes."""

    when = words(event=words("type", "object", "old", tombstone=words("key", "object")))
    then = words(requests=[_KEY], mayAlso=[_KEY], metrics=[METRIC])

    def check(self, case: Case, run: Run) -> None:
        subject = PoolStatusSubject()
        before = subject.samples()
        found = subject.feed(case.when["event"])
        wanted = {Key(each["namespace"], each["name"]) for each in case.then["requests"]}
        tolerated = {Key(each["namespace"], each["name"]) for each in case.then.get("mayAlso") or ()}
        if not wanted <= found or not found - wanted <= tolerated:
            raise CaseFailure(f"requests: expected {_texts(wanted)}, found {_texts(found)}")
        evidence = Evidence(_Nowhere(), [], before, subject.samples())  # type: ignore[arg-type]
        failures = [
            line for item in case.then.get("metrics") or () for line in metric_failures(item, evidence)
        ]
        if failures:
            raise CaseFailure(*failures)


class _Nowhere:
    """Namespaces are what the case says."""

    def namespace(self, name: str) -> str:
        return name


class BackoffKind(_IpamKind):
    """The delay of the next failure, or of many first ones."""

    given = words("consecutiveFailures", "sequence", "key", "distinctKeysFailingAtOnce")
    when = words(op=frozenset({"AddRateLimited"}))
    then = words(
        "delayMs",
        "toleranceMs",
        keysWithDelayAtMostMs=words("ms", **_BOUNDS),
        maxDelayMs=_BOUNDS,
    )

    def check(self, case: Case, run: Run) -> None:
        then = case.then
        if "delayMs" in then:
            found = next_delay(case.given) * 1000
            if abs(found - then["delayMs"]) > then.get("toleranceMs", 1):
                raise CaseFailure(f"delay: expected {then['delayMs']} ms, found {found} ms")
        if "keysWithDelayAtMostMs" in then or "maxDelayMs" in then:
            delays = [each * 1000 for each in delays_at_once(case.given["distinctKeysFailingAtOnce"])]
            bounds = then.get("keysWithDelayAtMostMs") or {}
            soon = sum(delay <= bounds.get("ms", 0) for delay in delays)
            _expect_within(f"keys that wait at most {bounds.get('ms')} ms", bounds, soon)
            _expect_within("longest delay in ms", then.get("maxDelayMs") or {}, max(delays))


class CoalesceKind(_IpamKind):
    """Keys that are added, and how often they come out."""

    given = words("workersPaused", "processing", "workers", "reconcileMs", "delayed")
    when = words("adds", "spacingMs")
    then = words(
        "depth", "runsAfterResume", "runsAfterCurrent", "maxConcurrentTotal", "maxConcurrentPerKey", "runs",
        "maxConcurrent", "runsWithinMs", "runsTotal",
    )  # fmt: skip

    def check(self, case: Case, run: Run) -> None:
        queue = QueueRun(case.given)
        queue.run(case.when["adds"], case.when.get("spacingMs", 0) / 1000)
        found: Mapping[str, Any] = {
            "depth": queue.depth,
            "runs": dict(queue.runs),
            "runsAfterResume": dict(queue.runs),
            "runsAfterCurrent": dict(queue.runs),
            "maxConcurrentTotal": queue.at_once,
            "maxConcurrentPerKey": max(queue.at_once_per_key.values(), default=0),
        }
        for word, wanted in case.then.items():
            match word:
                case "maxConcurrent":
                    self._compare(word, wanted, queue.at_once_per_key)
                case "runsTotal":
                    self._compare(word, wanted, queue.runs)
                case "runsWithinMs":
                    counts = {key: value for key, value in wanted.items() if key != "ms"}
                    self._compare(word, counts, queue.runs_within(wanted["ms"] / 1000))
                case _:
                    expect_equal(word, wanted, found[word])

    @staticmethod
    def _compare(word: str, wanted: Json, found: Mapping[str, int]) -> None:
        """Counts by key, each exact or between bounds."""
        for key, count in wanted.items():
            bounds = count if isinstance(count, dict) else {"atLeast": count, "atMost": count}
            refuse_unknown(bounds, _BOUNDS, f"then.{word}.{key}")
            _expect_within(f"{word} of {key}", bounds, found.get(key, 0))


class CidrKind(_IpamKind):
    """Pure functions of CIDRs."""

    given = words("a", "b")
    when = words(op=frozenset({"overlaps", "last_address", "canonical", "normalize_size_key"}))
    then = words("result", "error")
    functions: Final[Mapping[str, Callable[..., Any]]] = {
        "overlaps": network.overlaps,
        "last_address": network.last_address,
        "canonical": network.canonical,
        "normalize_size_key": normalize_size_key,
    }

    def check(self, case: Case, run: Run) -> None:
        function = self.functions[case.when["op"]]
        try:
            found = function(*(case.given[key] for key in ("a", "b") if key in case.given))
        except ValueError as error:
            if case.then.get("error", "\0") not in str(error):
                raise CaseFailure(f"expected {case.then}, found the error {error}") from error
            return
        if "error" in case.then:
            raise CaseFailure(f"expected the error {case.then['error']}, found {found}")
        expect_equal("result", case.then["result"], found)


class AlertKind(_IpamKind):
    """A shipped alert rule on synthetic series."""

    given = words("series", "interval")
    when = words("rule", "evalAt")
    then = words("alerts")

    def check(self, case: Case, run: Run) -> None:
        groups = yaml.safe_load(_RULES.read_text(encoding="utf-8"))["spec"]["groups"]
        rules = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
        rule = rules.get(case.when["rule"])
        if rule is None:
            raise CaseFailure(f"there is no rule {case.when['rule']}")
        step = seconds(case.given["interval"])
        store = Store(case.given["series"], step)
        found = firing(rule, store, step=step, until=seconds(case.when["evalAt"]))
        failures = mismatches({"$unordered": case.then["alerts"]}, found, path="alerts")
        if failures:
            raise CaseFailure(*failures)


def _expect_within(what: str, bounds: Json, found: float) -> None:
    if not bounds.get("atLeast", found) <= found <= bounds.get("atMost", found):
        raise CaseFailure(f"{what}: expected {bounds}, found {found}")


def _texts(keys: set[Key]) -> list[str]:
    return sorted(map(str, keys))


_STEPS: Final = StepKind()
KINDS: Final[Mapping[str, Kind]] = {
    "admission": _STEPS,
    "pool_status": _STEPS,
    "converge": _STEPS,
    "fault": _STEPS,
    "http_trigger": _STEPS,
    "metrics": _STEPS,
    "stress": _STEPS,
    "preload": _STEPS,
    "crd": DefinitionKind(),
    "requeue": RequeueKind(),
    "backoff": BackoffKind(),
    "coalesce": CoalesceKind(),
    "cidr": CidrKind(),
    "promql": AlertKind(),
}
