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
from tests.harness.case import Case, CaseFailure
from tests.harness.matching import mismatches
from tests.harness.registry import EXCLUSIVE, Kind
from tests.harness.run import Run

from .expect import Evidence, check, metric_failures
from .promql import Store, firing, seconds
from .queue import PoolStatusSubject, QueueRun, next_delay
from .step import Steps
from .world import World, world_for

Json = dict[str, Any]

_LONG: Final = ("stress", "preload")
_RULES: Final = files("quarterdeck.operators.ipam") / "monitoring" / "rules.yaml"


class _IpamKind:
    """What the kinds share: they run beside anything, and every word is understood."""

    given_keys: frozenset[str] = frozenset()
    when_keys: frozenset[str] = frozenset()
    then_keys: frozenset[str] = frozenset()

    def lane(self, case: Case) -> str:
        return ""

    def run(self, case: Case, run: Run) -> None:
        unknown = [f"given.{key}" for key in case.given.keys() - self.given_keys]
        unknown += [f"when.{key}" for key in case.when.keys() - self.when_keys]
        unknown += [f"then.{key}" for key in case.then.keys() - self.then_keys]
        if unknown:
            raise CaseFailure(*(f"{word} is not understood" for word in sorted(unknown)))
        self.check(case, run)

    def check(self, case: Case, run: Run) -> None:
        raise NotImplementedError


class StepKind(_IpamKind):
    """Objects, steps, and what holds after them."""

    given_keys = frozenset({"objects", "faults", "admissionHook"})
    when_keys = frozenset({"steps"})
    then_keys = frozenset({"expect", "responses", "events", "metrics", "invariants", "anyOf", "ratioAtMost"})

    def lane(self, case: Case) -> str:
        measured = any(step["op"] == "measure_per_event" for step in case.when.get("steps") or ())
        return EXCLUSIVE if measured else ""

    def check(self, case: Case, run: Run) -> None:
        with world_for(case, run) as world:
            if self._needs_controllers(case):
                world.start()
            steps = Steps(world, is_long=case.kind in _LONG)
            for document in case.given.get("objects") or ():
                answer = world.create(document)
                if answer.status != 201:
                    raise CaseFailure(f"given {document['kind']}: {answer.status}: {answer.text()}")
            if case.given.get("admissionHook") == "on":
                steps.settle()
            self._run_steps(case, world, steps)

    def _needs_controllers(self, case: Case) -> bool:
        return case.kind != "admission" or case.given.get("admissionHook") == "on"

    def _run_steps(self, case: Case, world: World, steps: Steps) -> None:
        before = world.samples()
        for step in case.when["steps"]:
            settled = steps.has_settled
            steps.run(step)
            if case.kind == "fault" and steps.has_settled and not settled:
                before = world.samples()
        check(case.then, Evidence(world, steps.responses, before, world.samples(), steps.ratio))


class DefinitionKind(_IpamKind):
    """The definition as it is served."""

    given_keys = frozenset({"crd"})
    when_keys = frozenset({"steps"})
    then_keys = frozenset({"crd"})

    def check(self, case: Case, run: Run) -> None:
        with world_for(case, run) as world:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{case.given['crd']}"
            spec = world.request("GET", path).json()["spec"]
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
        _expect("crd", wanted, {key: found.get(key) for key in wanted})


class RequeueKind(_IpamKind):
    """One event, and the keys it makes."""

    when_keys = frozenset({"event"})
    then_keys = frozenset({"requests", "mayAlso", "metrics"})

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
    """The delay of the next failure."""

    given_keys = frozenset({"consecutiveFailures", "sequence"})
    when_keys = frozenset({"op"})
    then_keys = frozenset({"delayMs", "toleranceMs"})

    def check(self, case: Case, run: Run) -> None:
        if case.when["op"] != "AddRateLimited":
            raise CaseFailure(f"op {case.when['op']} is not understood")
        found = next_delay(case.given) * 1000
        if abs(found - case.then["delayMs"]) > case.then.get("toleranceMs", 1):
            raise CaseFailure(f"delay: expected {case.then['delayMs']} ms, found {found} ms")


class CoalesceKind(_IpamKind):
    """Keys that are added, and how often they come out."""

    given_keys = frozenset({"workersPaused", "processing", "workers", "reconcileMs"})
    when_keys = frozenset({"adds"})
    then_keys = frozenset(
        {"depth", "runsAfterResume", "runsAfterCurrent", "maxConcurrentTotal", "maxConcurrentPerKey", "runs"}
    )

    def check(self, case: Case, run: Run) -> None:
        queue = QueueRun(case.given)
        queue.run(case.when["adds"])
        found = {
            "depth": queue.depth,
            "runs": dict(queue.runs),
            "runsAfterResume": dict(queue.runs),
            "runsAfterCurrent": dict(queue.runs),
            "maxConcurrentTotal": queue.at_once,
            "maxConcurrentPerKey": queue.at_once_per_key,
        }
        for key, wanted in case.then.items():
            _expect(key, wanted, found[key])


class CidrKind(_IpamKind):
    """Pure functions of CIDRs."""

    given_keys = frozenset({"a", "b"})
    when_keys = frozenset({"op"})
    then_keys = frozenset({"result", "error"})
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
        _expect("result", case.then["result"], found)


class AlertKind(_IpamKind):
    """A shipped alert rule on synthetic series."""

    given_keys = frozenset({"series", "interval"})
    when_keys = frozenset({"rule", "evalAt"})
    then_keys = frozenset({"alerts"})

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


def _expect(what: str, wanted: Any, found: Any) -> None:
    if wanted != found:
        raise CaseFailure(f"{what}:", f"  expected {wanted}", f"  found    {found}")


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
