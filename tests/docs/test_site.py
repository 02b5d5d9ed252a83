"""The site that `make docs` builds: every page is in its navigation, and no link leads out of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from site_links import without_outer_links

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def listed(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from listed(each)


def test_every_page_is_in_the_navigation_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(listed(site["nav"])) == sorted(PAGES)


def test_the_list_of_decisions_has_them_all() -> None:
    text = (DOCS / "adr" / "index.md").read_text()
    assert [page for page in PAGES if page.startswith("adr/0") and f"({page[4:]})" not in text] == []


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("upgrade.md", "the [changelog](../CHANGELOG.md)", "the changelog (`CHANGELOG.md`)"),
        ("operators/kai.md", "[`deploy/a.yaml`](../../deploy/a.yaml)", "`deploy/a.yaml`"),
        ("testing.md", "([how](../CONTRIBUTING.md#tests))", "(how (`CONTRIBUTING.md`))"),
        ("operators/kai.md", "[scheduler](../scheduler.md#why)", "[scheduler](../scheduler.md#why)"),
        ("faq.md", "[upgrading](upgrade.md)", "[upgrading](upgrade.md)"),
    ],
)
def test_links_that_leave_the_site_become_paths(place: str, text: str, expected: str) -> None:
    assert without_outer_links(text, place) == expected
