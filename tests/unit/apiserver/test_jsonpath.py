"""JSONPaths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.apiserver.document.jsonpath import JsonPath, JsonPathError

DOCUMENT = {
    "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}], "none": []},
    "items": [0, 1, 2, 3, 4],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.conditions[-1:].type", ["B"]),
        (".status.conditions[0].type", ["A"]),
        ('.status.conditions[?(@.type=="B")].status', ["False"]),
        (".status.none[-1:].type", []),
        (".status.missing[-1:].type", []),
        (".status[-1:]", []),
        (".items[1:3]", [1, 2]),
        (".items[:2]", [0, 1]),
        (".items[3:]", [3, 4]),
        (".items[-2:]", [3, 4]),
        (".items[:-3]", [0, 1]),
        (".items[::2]", [0, 2, 4]),
        (".items[1:4:2]", [1, 3]),
        (".items[2:2]", []),
        (".items[3:1]", []),
        (".items[4:9]", []),
        (".items[-9:]", []),
        (".items[0:5:0]", []),
        (".items[*]", [0, 1, 2, 3, 4]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(DOCUMENT) == found


def test_other_paths_are_refused() -> None:
    with pytest.raises(JsonPathError, match="unrecognized"):
        JsonPath(".items[?(@.a>1)]")
