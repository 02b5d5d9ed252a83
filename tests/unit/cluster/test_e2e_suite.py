"""The choice of Conformance specs."""

from __future__ import annotations

import json

from e2e import suite


def test_every_spec_is_either_run_or_skipped_for_one_reason() -> None:
    skipped = [name for names in suite.skipped().values() for name in names]
    assert len(skipped) == len(set(skipped))
    assert not set(skipped) & set(suite.reference())
    assert all("[Conformance]" in name for name in (*skipped, *suite.reference()))


def test_specs_that_disturb_each_other_share_a_process() -> None:
    names = suite.reference()
    shares = suite.share(names, 3)
    assert sorted(name for each in shares for name in each) == sorted(names)
    assert len(shares) == 3
    homes = {
        number
        for number, each in enumerate(shares)
        for name in each
        if "CustomResourceDefinition" in name or "Discovery" in name
    }
    assert homes == {0}
    assert suite.share(names, 1) == [names]


def test_the_list_of_conformance_has_an_outcome_or_a_reason_for_every_spec() -> None:
    specs = json.loads(suite.CONFORMANCE.read_text())["specs"]
    names = [each["spec"] for each in specs]
    assert len(names) == len(set(names))
    for each in specs:
        assert ("ours" in each and "reference" in each) != ("leftOut" in each)
    assert all(each["ours"] == "passed" for each in specs if each.get("reference") == "passed")
    left_out = {each["spec"] for each in specs if "leftOut" in each}
    assert {name for found in suite.skipped().values() for name in found} <= left_out


def test_specs_of_workloads_are_none_of_the_apis() -> None:
    chosen = suite.workload_specs()
    assert len(chosen) >= 134
    assert not set(chosen) & set(suite.reference())


def test_every_spec_that_needs_containers_has_an_outcome_and_failures_a_reason() -> None:
    specs = json.loads(suite.CONTAINERS.read_text())["specs"]
    assert len(specs) == len({each["spec"] for each in specs})
    assert all((each["ours"] == "passed") != ("why" in each) for each in specs)
    assert suite.container_specs() == [each["spec"] for each in specs if each["ours"] == "passed"]
    assert not set(suite.container_specs()) & set(suite.reference())
