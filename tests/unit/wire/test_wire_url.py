"""URL paths as Go's ``path.Join`` and ``url.URL`` make them."""

from __future__ import annotations

import pytest

from quarterdeck.wire.url import clean_path, escape_path


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "/"),
        ("/", "/"),
        ("//", "/"),
        ("a", "/a"),
        ("//validate-v1", "/validate-v1"),
        ("///a//b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/../../a", "/a"),
        ("..", "/"),
        ("/a/..", "/"),
    ],
)
def test_paths_are_cleaned(path: str, cleaned: str) -> None:
    assert clean_path(path) == cleaned


def test_paths_are_escaped() -> None:
    assert (
        escape_path("/a b?c#d%e!(f)*'/$&+,:;=@-_.~é")
        == "/a%20b%3Fc%23d%25e%21%28f%29%2A%27/$&+,:;=@-_.~%C3%A9"
    )
