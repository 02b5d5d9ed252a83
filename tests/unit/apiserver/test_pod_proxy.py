"""Names in the paths of proxies."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.registry.podproxy import Target, parse_target
from quarterdeck.apiserver.requestinfo import RequestInfo


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("web", Target("http", "web", "")),
        ("web:80", Target("http", "web", "80")),
        ("https:web:admin", Target("https", "web", "admin")),
        (":web:80", Target("http", "web", "80")),
        ("ftp:web:80", None),
        ("a:b:c:d", None),
        (":80", None),
    ],
)
def test_a_name_may_have_a_scheme_and_a_port(text: str, target: Target | None) -> None:
    assert parse_target(text) == target


def test_the_path_behind_a_proxy_is_none_of_ours() -> None:
    info = RequestInfo("GET", "/api/v1/namespaces/n/pods/web:80/proxy/a/b")
    assert (info.name, info.subresource, info.verb) == ("web:80", "proxy", "get")
