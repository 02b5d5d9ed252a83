"""Links of a page that a pod sent: those to other pages of the pod lead through the proxy, too. Pure."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(rb"<[A-Za-z][^<>]*>")
_LINK: Final = re.compile(
    rb"(\s(?:href|src|action|formaction|cite|background|codebase|data|icon|longdesc|manifest|poster|profile"
    rb"|usemap|classid)\s*=\s*)(\"[^\"]*\"|'[^']*')",
    re.IGNORECASE,
)


def through_proxy(place: str, prefix: str) -> str:
    """A path of the pod's own as the client has to ask for it; others stay as they are."""
    is_own = place.startswith("/") and not place.startswith("//")
    return f"{prefix}{place}" if is_own and not place.startswith(f"{prefix}/") else place


def rewrite_links(page: bytes, prefix: str) -> bytes:
    """The page with its links led through the proxy at ``prefix``."""

    def link(found: re.Match[bytes]) -> bytes:
        quoted = found[2]
        place = through_proxy(quoted[1:-1].decode("latin-1"), prefix)
        return found[1] + quoted[:1] + place.encode("latin-1") + quoted[-1:]

    return _TAG.sub(lambda tag: _LINK.sub(link, tag[0]), page)
