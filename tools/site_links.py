"""A hook of MkDocs: links from a page to files outside of `docs` become the paths of these files.

On a code host such a link leads to the file. The site does not have the file, so the reader gets its path in
the source tree instead: `[the files](../examples/concert)` becomes "the files (`examples/concert`)".
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What MkDocs calls for each page before it is rendered."""
    return without_outer_links(markdown, page.file.src_uri)


def without_outer_links(markdown: str, place: str) -> str:
    """The text of the page at `place`, a path below `docs`, with paths instead of links that leave `docs`."""

    def path(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        if not inside.startswith("../"):
            return link[0]
        file = inside.removeprefix("../")
        return f"`{file}`" if text.strip("`") == file else f"{text} (`{file}`)"

    return _LINK.sub(path, markdown)
