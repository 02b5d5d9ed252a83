"""The examples in the documentation run and its links lead somewhere."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import docs

EXAMPLES = [
    pytest.param(page, number, code, id=f"{page.name}-{number}")
    for page in docs.pages()
    for number, code in enumerate(docs.examples(page), 1)
]


@pytest.mark.parametrize(("page", "number", "code"), EXAMPLES)
def test_example_runs(page: Path, number: int, code: str) -> None:
    assert docs.run_example(page, number, code) == ""


@pytest.mark.parametrize("page", docs.pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert docs.broken_links(page) == []
