"""Processes that keep namespaces, found by their files and without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.cluster.agent.network.holder import end_holder, find_holder, start_holder


@pytest.mark.parametrize("data", [None, b"", b"{", b'{"pid": "x"}'])
def test_a_holder_is_found_and_ended_whatever_became_of_its_file(tmp_path: Path, data: bytes | None) -> None:
    file, other = tmp_path / "network.json", tmp_path / "other.json"
    started, untouched = start_holder(file), start_holder(other)
    try:
        if data is not None:
            file.write_bytes(data)
        assert find_holder(file) == started
    finally:
        end_holder(file)
    assert not started.is_alive
    assert untouched.is_alive
    assert find_holder(file) is None
    end_holder(other)
