"""The checklist of the runtime, item by item, and the tests that answer for it.

A test answers for an item by its name: ``test_item_7_…``. Items that need no server, or more than one test,
have some beside the units they concern; ``python -m pytest -k item_7`` runs all of an item.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAME = re.compile(r"^(?:async )?def test_(?:item_(\d+)_|items_((?:\d+_)+))", re.MULTILINE)
ITEMS = {
    1: "same key never twice at once",
    2: "an add during processing is one more run",
    3: "merge rules of the queue",
    4: "back-off",
    5: "ageing of the initial list",
    6: "410 in the stream",
    7: "429, connection refused, short watch",
    8: "streamed lists",
    9: "bookmarks",
    10: "UID change across a list",
    11: "silent black hole",
    12: "own writes are seen",
    13: "missing permission",
    14: "start and stop order, grace, signals",
    15: "partition of the leader",
    16: "Lease record",
    17: "event correlation",
    18: "admission",
    19: "conversion",
    20: "certificate rotation",
    21: "metric names, labels, buckets",
    22: "CRDs, drift, permissions",
    23: "nothing is leaked at run time",
    24: "frozen objects",
}


def test_every_item_of_the_checklist_has_tests() -> None:
    answered: dict[int, list[str]] = {item: [] for item in ITEMS}
    for file in TESTS.rglob("test_*.py"):
        for one, several in NAME.findall(file.read_text()):
            for number in (one or several.strip("_")).split("_"):
                answered[int(number)].append(str(file.relative_to(TESTS)))
    assert [item for item, files in answered.items() if not files] == []
