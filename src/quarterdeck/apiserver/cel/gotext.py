"""Text functions the way Go has them."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.gotext import quote

__all__ = ["SPACE", "quote", "trim_space"]

# unicode.IsSpace; str.strip() would also take the information separators
SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)


def trim_space(text: str) -> str:
    """strings.TrimSpace."""
    return text.strip(SPACE)
