"""Histories without servers: what is generated, compared, shrunk and kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from histories import recording
from histories.compare import COLLECTION, REMEMBERS, compare, volatile_steps
from histories.generate import history
from histories.recording import Recorded
from histories.shrink import shrink
from histories.stream import name_of

Json = dict[str, Any]
EXPIRED = {"written": 201, "events": [{"type": "ERROR", "object": {"code": 410}}]}


def answer(status: int, **body: Any) -> Json:
    return {"status": status, "headers": {}, "body": body}


@pytest.mark.parametrize("seed", range(40))
def test_a_seed_is_always_the_same_history_and_refers_to_the_past_only(seed: int) -> None:
    steps = history(seed)
    assert steps == history(seed)
    assert 40 <= len(steps) <= 240
    assert [step["i"] for step in steps] == list(range(len(steps)))
    for step in steps:
        named = [int(number) for number in re.findall(r"\$\{(\d+)\.", json.dumps(step))]
        named += [step["watch"]] if "watch" in step else []
        assert all(number < step["i"] for number in named), step


def test_the_seeds_together_do_everything() -> None:
    steps = [step for seed in range(200) for step in history(seed)]
    done = {(step["op"], step.get("method"), step.get("type")) for step in steps}
    patches = {kind for _, method, kind in done if method == "PATCH"}
    assert {kind.split("/")[1].split("-patch")[0] for kind in patches if kind} == {
        "json",
        "merge",
        "strategic-merge",
        "apply",
    }
    ops = {"request", "settle", "watch", "read", "ended", "restart", "calls", "clock", "compact"}
    assert {op for op, _, _ in done} == ops
    assert {step["how"] for step in steps if step["op"] == "restart"} == {"TERM", "KILL"}


def test_answers_that_differ_are_told_by_step() -> None:
    steps = [{"i": 3, "op": "request"}, {"i": 5, "op": "request"}]
    verdict = compare(steps, {3: answer(200, a=1), 5: answer(404)}, {3: answer(200, a=2), 5: answer(404)})
    assert list(verdict.differing) == [3]


def test_a_step_the_real_server_does_not_repeat_is_not_compared() -> None:
    steps = [{"i": 0, "op": "request"}]
    first, second = {0: answer(200, a=1)}, {0: answer(200, a=2)}
    assert volatile_steps(steps, first, second) == [0]
    assert not compare(steps, first, second, volatile=[0]).differing


def test_a_watch_that_only_the_real_server_has_forgotten_is_explained() -> None:
    steps = [{"i": 0, "op": "watch"}, {"i": 1, "op": "read", "watch": 0}, {"i": 2, "op": "read", "watch": 0}]
    real = {0: answer(200), 1: EXPIRED, 2: {"written": 201, "events": []}}
    shown = {"written": 201, "events": [{"type": "ADDED", "object": {}}]}
    verdict = compare(steps, real, {0: answer(200), 1: shown, 2: shown})
    assert not verdict.differing
    assert verdict.explained == {REMEMBERS: 1}
    # the other way round something is lost
    assert compare(steps, {0: answer(200), 1: shown, 2: shown}, real).differing


def test_the_order_of_a_deleted_collection_of_pods_is_explained() -> None:
    def events(*told: str) -> Json:
        found = []
        for number, (kind, name) in enumerate(text.split() for text in told):
            meta = {"name": name, "resourceVersion": f"#{number}"}
            found.append({"type": kind, "object": {"kind": "Pod", "metadata": meta}})
        return {"written": 201, "events": found}

    real = events("MODIFIED a", "DELETED a", "MODIFIED b", "DELETED b")
    ours = events("MODIFIED a", "MODIFIED b", "DELETED a", "DELETED b")
    steps: list[Json] = [
        {"i": 0, "op": "request", "method": "DELETE", "path": "/pods"},
        {"i": 1, "op": "read", "path": "/pods", "watch": 7},
    ]
    gone = answer(200)
    assert compare(steps, {0: gone, 1: real}, {0: gone, 1: ours}).explained == {COLLECTION: 1}
    assert compare(steps[1:], {1: real}, {1: ours}).differing, "no collection was deleted"
    ours["events"][2:] = []
    assert compare(steps, {0: gone, 1: real}, {0: gone, 1: ours}).differing


async def test_shrinking_keeps_the_steps_that_matter() -> None:
    steps = [{"i": number} for number in range(97)]

    async def differs(part: list[Json]) -> bool:
        return {12, 13, 80} <= {step["i"] for step in part}

    assert await shrink(steps, differs) == [{"i": 12}, {"i": 13}, {"i": 80}]


async def test_shrinking_ends_after_so_many_tries() -> None:
    tries = 0

    async def differs(part: list[Json]) -> bool:
        nonlocal tries
        tries += 1
        return False

    steps = [{"i": number} for number in range(50)]
    assert await shrink(steps, differs, most_tries=7) == steps
    assert tries == 7


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    kept = [Recorded("7", [{"i": 0}, {"i": 4}], {0: answer(200, a=1), 4: None}, [4])]
    recording.save(kept, tmp_path / "kept")
    assert list(recording.load(tmp_path / "kept")) == kept
    recording.save_case(kept[0], tmp_path)
    assert recording.load_cases(tmp_path) == kept


def test_events_in_every_form_have_a_name() -> None:
    plain = {"metadata": {"name": "one"}}
    assert name_of({"object": plain}) == "one"
    assert name_of({"object": {"kind": "Table", "rows": [{"object": plain}]}}) == "one"
    assert name_of({"object": {"kind": "Status", "metadata": {}}}) == ""
