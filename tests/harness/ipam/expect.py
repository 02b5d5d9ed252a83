"""What must hold after the steps of an ipam case."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from quarterdeck.operators.ipam.logic.network import InvalidCidr, Network, parse
from quarterdeck.operators.ipam.logic.statuscalc import calculate
from tests.harness.case import CaseFailure
from tests.harness.matching import MISSING, json_equal, show
from tests.harness.words import words

from .casecluster import CaseCluster, is_equal, pointer
from .operator import Sample
from .step import Response

Json = dict[str, Any]

_OPERATORS: Final = ("equals", "absent", "present", "startsWith", "contains", "oneOf", "notOverlaps")
_REF: Final = words("kind", "namespace", "name")
METRIC: Final = words(
    "name", "labels", "delta", "deltaAtLeast", "value", "absent", "present", "withinSecondsOfNow"
)
_BLOCKS: Final = words(
    "invariants",
    "ratioAtMost",
    expect=[
        words(
            "path", "condition", "status", "reason", "message", "count", *_OPERATORS,
            ref=_REF, list=words("kind", "namespace", "where"),
        )
    ],
    responses=[words("step", "code", "messageContains")],
    events=[words("type", "reason", "message", ref=_REF)],
    metrics=[METRIC],
)  # fmt: skip
THEN: Final = words(anyOf=[_BLOCKS], **_BLOCKS)


class Evidence:
    """Everything that expectations are held against."""

    def __init__(
        self,
        cluster: CaseCluster,
        responses: list[Response | None],
        before: list[Sample],
        after: list[Sample],
        ratio: float | None = None,
    ) -> None:
        self.cluster: Final = cluster
        self.responses: Final = responses
        self.before: Final = before
        self.after: Final = after
        self.ratio: Final = ratio


def check(then: Mapping[str, Any], evidence: Evidence) -> None:
    """Raises CaseFailure with everything that does not hold."""
    failures = list(_failures(then, evidence))
    if failures:
        raise CaseFailure(*failures)


def _failures(then: Mapping[str, Any], evidence: Evidence) -> Iterable[str]:
    for item in then.get("expect") or ():
        yield from _expectation(item, evidence)
    for item in then.get("responses") or ():
        yield from _response(item, evidence)
    for item in then.get("events") or ():
        yield from _event(item, evidence)
    for item in then.get("metrics") or ():
        yield from metric_failures(item, evidence)
    for item in then.get("invariants") or ():
        yield from _invariant(item, evidence)
    if "ratioAtMost" in then and (evidence.ratio is None or evidence.ratio > then["ratioAtMost"]):
        yield f"ratio: expected at most {then['ratioAtMost']}, found {evidence.ratio}"
    branches = then.get("anyOf")
    if branches:
        found = [list(_failures(branch, evidence)) for branch in branches]
        if all(found):
            yield "none of the branches of anyOf holds:"
            yield from (f"  {line}" for lines in found for line in lines)


def _expectation(item: Json, evidence: Evidence) -> Iterable[str]:
    if "list" in item:
        yield from _count(item, evidence)
        return
    ref = item["ref"]
    name = f"{ref['kind']} {ref['name']}"
    document = evidence.cluster.read(ref)
    if "condition" in item:
        yield from _condition(item, document, name)
        return
    found = pointer(document, item.get("path", "")) if document is not None else MISSING
    operators = [word for word in _OPERATORS if word in item]
    if len(operators) != 1 or item.keys() - {"ref", "path", operators[0]}:
        yield f"expectation {item} is not understood"
        return
    wanted = _meant(item[operators[0]], evidence)
    if not _holds(operators[0], wanted, found):
        where = "" if document is not None else " (the object does not exist)"
        yield (
            f"{name} {item.get('path', '')}: expected {operators[0]} {show(wanted)},"
            f" found {show(found)}{where}; status {show((document or {}).get('status'))}"
        )


def _meant(value: Any, evidence: Evidence) -> Any:
    """The value to compare with: given, or to be read from an object."""
    if not isinstance(value, dict) or value.keys() != {"ref", "path"}:
        return value
    return pointer(evidence.cluster.read(value["ref"]), value["path"])


def _holds(operator: str, wanted: Any, found: Any) -> bool:
    match operator:
        case "equals":
            return is_equal(wanted, found)
        case "absent":
            return (found is MISSING) == bool(wanted)
        case "present":
            return (found is not MISSING) == bool(wanted)
        case "startsWith":
            return isinstance(found, str) and found.startswith(wanted)
        case "contains":
            return found is not MISSING and wanted in found
        case "oneOf":
            return any(json_equal(each, found) for each in wanted)
        case _:
            others = wanted if isinstance(wanted, list) else [wanted]
            return isinstance(found, str) and not any(_overlap(found, other) for other in others)


def _overlap(one: str, other: str) -> bool:
    try:
        return parse(one).overlaps(parse(other))
    except InvalidCidr:
        return False


def _condition(item: Json, document: Json | None, name: str) -> Iterable[str]:
    conditions = ((document or {}).get("status") or {}).get("conditions") or []
    found = next((each for each in conditions if each["type"] == item["condition"]), None)
    if item.get("absent"):
        if found is not None:
            yield f"{name} condition {item['condition']}: expected none, found {show(found)}"
        return
    for key in item.keys() - {"ref", "condition", "absent"}:
        if (found or {}).get(key) != item[key]:
            yield f"{name} condition {item['condition']}: expected {key} {item[key]!r}, found {show(found)}"


def _count(item: Json, evidence: Evidence) -> Iterable[str]:
    wanted = item["list"]
    found = evidence.cluster.chosen(wanted)
    if len(found) != item["count"]:
        names = [each["metadata"]["name"] for each in found]
        yield f"list {show(wanted)}: expected {item['count']}, found {len(found)} {show(names)}"


def _response(item: Json, evidence: Evidence) -> Iterable[str]:
    answer = evidence.responses[item["step"]]
    if answer is None or answer.code != item["code"]:
        found = f"{answer.code} {answer.text[:600]}" if answer is not None else "nothing"
        yield f"step {item['step']}: expected {item['code']}, found {found}"
        return
    yield from (
        f"step {item['step']}: expected {text!r} in {answer.text[:600]}"
        for text in item.get("messageContains") or ()
        if text not in answer.text.replace('\\"', '"')
    )


def _event(item: Json, evidence: Evidence) -> Iterable[str]:
    ref = item["ref"]
    found = [
        {key: each.get(key) for key in ("type", "reason", "message")}
        for each in evidence.cluster.items("Event", ref.get("namespace"))
        if (each["involvedObject"].get("kind"), each["involvedObject"].get("name"))
        == (ref["kind"], ref["name"])
    ]
    wanted = {key: item[key] for key in ("type", "reason", "message") if key in item}
    if not any(all(each[key] == value for key, value in wanted.items()) for each in found):
        yield f"events of {ref['name']}: expected {show(wanted)}, found {show(found)}"


def metric_failures(item: Json, evidence: Evidence) -> Iterable[str]:
    """What does not hold of one expectation about a metric."""
    labels = dict(item.get("labels") or {})
    if "ns" in labels:
        labels["ns"] = evidence.cluster.namespace(labels["ns"])
    before = _total(evidence.before, item["name"], labels) or 0.0
    after = _total(evidence.after, item["name"], labels)
    name = f"{item['name']}{show(labels)}"
    checks: dict[str, Callable[[Any], bool]] = {
        "delta": lambda wanted: (after or 0.0) - before == wanted,
        "deltaAtLeast": lambda wanted: (after or 0.0) - before >= wanted,
        "value": lambda wanted: after == wanted,
        "absent": lambda wanted: (after is None) == wanted,
        "present": lambda wanted: (after is not None) == wanted,
        "withinSecondsOfNow": lambda wanted: after is not None and abs(time.time() - after) <= wanted,
    }
    for word in item.keys() - {"name", "labels"}:
        if not checks[word](item[word]):
            yield f"{name}: expected {word} {item[word]}, found {after} after {before}"


def _total(samples: Iterable[Sample], name: str, labels: Mapping[str, str]) -> float | None:
    found = [
        value
        for each, have, value in samples
        if each == name and all(have.get(key) == wanted for key, wanted in labels.items())
    ]
    return sum(found) if found else None


def _invariant(text: str, evidence: Evidence) -> Iterable[str]:
    name, _, target = text.partition(":")
    namespace, _, pool = target.partition("/")
    checks = {
        "no_overlap": _no_overlap,
        "no_overlap_bound": _no_overlap_bound,
        "no_overlap_ignoring_reservations": _no_overlap_ignoring_reservations,
        "bound_claims_have_subnet": _bound_claims_have_subnet,
        "status_exact": _status_exact,
    }
    if name not in checks:
        return [f"invariant {name} is not understood"]
    return [f"{text}: {line}" for line in checks[name](evidence.cluster, namespace or "default", pool)]


def _overlaps(subnets: Iterable[Json]) -> Iterable[str]:
    """Of blocks in the order of their addresses, overlapping ones follow a block that reaches that far."""
    blocks = [(parse(each["spec"]["cidr"]), each["metadata"]["name"]) for each in subnets]
    blocks.sort(key=lambda block: (block[0].width, block[0].address, block[0].prefix))
    reach: tuple[Network, str] | None = None
    for network, name in blocks:
        if reach is not None and reach[0].overlaps(network):
            yield f"{reach[1]} {reach[0]} overlaps {name} {network}"
        if reach is None or network.width != reach[0].width or network.last > reach[0].last:
            reach = (network, name)


def _no_overlap(cluster: CaseCluster, namespace: str, pool: str) -> Iterable[str]:
    return _overlaps(_members(cluster, namespace, pool))


def _members(cluster: CaseCluster, namespace: str, pool: str) -> list[Json]:
    return cluster.chosen({"kind": "Subnet", "namespace": namespace, "where": {"/spec/poolRef": pool}})


def _no_overlap_bound(cluster: CaseCluster, namespace: str, pool: str) -> Iterable[str]:
    bound = {
        (each["spec"]["poolRef"], each["status"]["allocatedCIDR"])
        for each in cluster.items("SubnetClaim", namespace)
        if (each.get("status") or {}).get("phase") == "Bound"
    }
    subnets = [
        each
        for each in cluster.items("Subnet", namespace)
        if (each["spec"]["poolRef"], each["spec"]["cidr"]) in bound
        and (not pool or each["spec"]["poolRef"] == pool)
    ]
    by_pool: dict[str, list[Json]] = {}
    for each in subnets:
        by_pool.setdefault(each["spec"]["poolRef"], []).append(each)
    return [line for members in by_pool.values() for line in _overlaps(members)]


def _no_overlap_ignoring_reservations(cluster: CaseCluster, namespace: str, pool: str) -> Iterable[str]:
    children = {
        each["metadata"]["name"]: parse(each["spec"]["cidr"])
        for each in cluster.items("SubnetPool", namespace)
        if (each["metadata"].get("labels") or {}).get("plexaubnet.io/parent")
    }
    subnets = [(parse(each["spec"]["cidr"]), each) for each in cluster.items("Subnet", namespace)]
    for (one, left), (other, right) in itertools.combinations(subnets, 2):
        if not one.overlaps(other):
            continue
        if children.get(right["spec"]["poolRef"]) == one or children.get(left["spec"]["poolRef"]) == other:
            continue
        yield f"{left['metadata']['name']} {one} overlaps {right['metadata']['name']} {other}"


def _bound_claims_have_subnet(cluster: CaseCluster, namespace: str, pool: str) -> Iterable[str]:
    subnets = [each["spec"] for each in cluster.items("Subnet", namespace)]
    known = Counter((each["poolRef"], each["clusterID"], each["cidr"]) for each in subnets)
    for claim in cluster.items("SubnetClaim", namespace):
        status, spec = claim.get("status") or {}, claim["spec"]
        if status.get("phase") == "Bound":
            count = known[spec["poolRef"], spec["clusterID"], status.get("allocatedCIDR")]
            if count != 1:
                yield f"claim {claim['metadata']['name']} has {count} Subnets"


def _status_exact(cluster: CaseCluster, namespace: str, pool: str) -> Iterable[str]:
    document = cluster.read({"kind": "SubnetPool", "namespace": namespace, "name": pool})
    if document is None:
        yield "the pool does not exist"
        return
    members = _members(cluster, namespace, pool)
    members.sort(key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    pairs = [(each["spec"]["cidr"], each["spec"]["clusterID"]) for each in members]
    count, free, cidrs = calculate(document["spec"]["cidr"], pairs)
    status = document.get("status") or {}
    found = status.get("freeCountBySize") or {}
    if (status.get("allocatedCount") or 0) != count:
        yield f"allocatedCount is {status.get('allocatedCount')}, {count} Subnets are there"
    different = {key: (found.get(key), value) for key, value in free.items() if found.get(key) != value}
    if different:
        yield f"freeCountBySize, found and expected: {different}"
    if "allocatedCIDRs" in status and status["allocatedCIDRs"] != cidrs:
        yield f"allocatedCIDRs: found {show(status['allocatedCIDRs'])}, expected {show(cidrs)}"
