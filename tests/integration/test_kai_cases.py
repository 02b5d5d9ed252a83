"""Words of the case language that the given case file does not use, and words that nobody understands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kai_language.json")


def run(file: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness", str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.splitlines()


def test_all_cases_pass() -> None:
    total = len(json.loads(FILE.read_text())["cases"])
    said = run(FILE)
    assert said[-1] == f"{total} passed, 0 failed", said


def test_what_does_not_hold_and_what_is_not_understood_fails(tmp_path: Path) -> None:
    good = {case["id"]: case for case in json.loads(FILE.read_text())["cases"]}

    def changed(name: str, part: str, **values: Any) -> dict[str, Any]:
        return {**good[name], "id": f"{name} {part} {sorted(values)}", part: {**good[name][part], **values}}

    cases = [
        changed("queue-delete", "then", allowed=False, message="no"),
        changed("queue-delete", "when", operation="PATCH"),
        changed("queue-delete", "then", mood="good"),
        changed("topology-immutable", "then", field="spec.elsewhere"),
        changed("quoting", "then", message="another text"),
        changed("job", "then", podGroup={"name": "pg-j-job-uid", "spec": {"minMember": 2}}),
        changed("job", "then", podGroup={"name": "pg-j-job-uid", "colour": "red"}),
        changed("user-made", "then", podGroup={"name": "mine"}),
        changed("user-made", "when", reconcile="node"),
        changed("jobset-in-order", "then", pod={"subGroupLabel": "a"}),
        {**good["job"], "id": "unknown kind", "kind": "riddle"},
    ]
    file = tmp_path / "kai-wrong.json"
    file.write_text(json.dumps({"system": "kai", "cases": cases}))
    said = run(file)
    assert said[-1] == f"0 passed, {len(cases)} failed", said
