"""A few runs of our operators under torture; `python -m tests.faults.torture` does more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from quarterdeck.testing.torture import as_text
from tests.faults.torture import campaign


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", ["nodegroup", "ipam", "jobset"])
def test_an_operator_survives(name: str) -> None:
    report = asyncio.run(campaign(name, most_runs=4).run())
    assert report.runs > 0
    assert report.findings == [], as_text(report)
