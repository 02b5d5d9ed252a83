"""URL paths as Go makes them, for the calls that upstream makes with its own client."""

import posixpath
from typing import Final
from urllib.parse import quote

_UNESCAPED: Final = "$&+,/:;=@-_.~"


def clean_path(path: str) -> str:
    """An absolute path without empty, ``.`` and ``..`` parts, as ``path.Join("/", path)`` gives it.

    >>> clean_path("//validate/"), clean_path("a/../b"), clean_path("")
    ('/validate', '/b', '/')
    """
    return posixpath.normpath("/" + path.lstrip("/"))


def escape_path(path: str) -> str:
    """A decoded path as it goes over the wire.

    >>> escape_path("/a b/c!")
    '/a%20b/c%21'
    """
    return quote(path, safe=_UNESCAPED)
