"""Conformance with upstream: results recorded from cel-go and the Kubernetes libraries."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.cel import (
    CelCompileError,
    CelRuntimeError,
    Duration,
    Environment,
    OptionalValue,
    Program,
    ProgramError,
    Timestamp,
    UInt,
    type_from_schema,
)
from quarterdeck.cel.rule.rules import ABSENT, CompiledRules
from quarterdeck.cel.value.value import TypeValue, to_python, type_name
from quarterdeck.wire.gonumber import float_text

HERE = Path(__file__).parent
EXPRESSIONS = json.loads((HERE / "expressions.json").read_text())
RULES = json.loads((HERE / "rules.json").read_text())["cases"]
PREFIX = "spec.validation.openAPIV3Schema"


def describe(value: Any) -> str:
    """The notation of the recorded values."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, UInt):
        return f"{int(value)}u"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "double(NaN)" if math.isnan(value) else f"double({float_text(value)})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"bytes({value.hex()})"
    if isinstance(value, Timestamp):
        return f"timestamp({value})"
    if isinstance(value, Duration):
        return f"duration({value.nanos})"
    if isinstance(value, TypeValue):
        return f"type({value.name})"
    if isinstance(value, OptionalValue):
        return f"optional({describe(value.value)})" if value.has_value() else "optional.none"
    if isinstance(value, list):
        return f"[{','.join(map(describe, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{describe(k)}:{describe(v)}" for k, v in value.items())) + "}"
    return type_name(value)


def outcome(program: Program, bindings: dict[str, Any], *, metered: bool) -> dict[str, str]:
    try:
        if metered:
            value = to_python(program.evaluate_metered(bindings, 1_000_000)[0])
        else:
            value = program.evaluate(bindings, cost_limit=None)
    except CelRuntimeError as problem:
        return {"error": problem.message}
    return {"value": describe(value)}


def check(environment: Environment, case: dict[str, Any], bindings: dict[str, Any]) -> None:
    if "compile" in case or "program" in case:
        with pytest.raises(CelCompileError) as caught:
            environment.compile(case["expression"])
        assert isinstance(caught.value, ProgramError) == ("program" in case)
        assert caught.value.message == case.get("compile", case.get("program"))
        return
    program = environment.compile(case["expression"])
    assert str(program.result_type) == case["type"]
    assert program.estimate_cost() == tuple(case["estimate"])
    expected = {key: case[key] for key in ("value", "error") if key in case}
    if "value" in expected and "<" in expected["value"] and not expected["value"].startswith('"'):
        expected["value"] = expected["value"].split("<")[0]  # opaque values print differently
    assert outcome(program, bindings, metered=False) == expected
    assert outcome(program, bindings, metered=True) == expected
    if "value" in case:
        assert program.evaluate_metered(bindings, 1_000_000)[1] == case["cost"]


@pytest.mark.parametrize("case", EXPRESSIONS["plain"], ids=lambda case: case["expression"][:60])
def test_expression_behaves_like_upstream(case: dict[str, Any]) -> None:
    check(Environment({}), case, {})


@pytest.mark.parametrize("case", EXPRESSIONS["typed"], ids=lambda case: case["expression"][:60])
def test_expression_over_schema_typed_data_behaves_like_upstream(case: dict[str, Any]) -> None:
    t = type_from_schema(EXPRESSIONS["schema"])
    data = EXPRESSIONS["data"]
    check(Environment({"self": t, "oldSelf": t}), case, {"self": data, "oldSelf": data})


@pytest.mark.parametrize("case", RULES, ids=lambda case: json.dumps(case["schema"])[-80:])
def test_rules_of_a_crd_behave_like_upstream(case: dict[str, Any]) -> None:
    rules = CompiledRules.compile(case["schema"])
    assert [str(error) for error in rules.errors(PREFIX)] == case.get("refused", [])
    if "violations" in case:
        old = case.get("old", ABSENT)
        found = rules.validate(case["new"], old, ratchet=case.get("ratchet", False))
        assert sorted(map(str, found)) == sorted(case["violations"])
