"""Names in the paths of proxies."""

from __future__ import annotations

import pytest

from quarterdeck.apiserver.registry.pod.htmllink import rewrite_links, through_proxy
from quarterdeck.apiserver.registry.pod.proxy import Target, parse_target, split_path
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


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/api/v1/namespaces/n/pods/web/proxy", ("/api/v1/namespaces/n/pods/web/proxy", "")),
        ("/api/v1/namespaces/n/pods/web/proxy/", ("/api/v1/namespaces/n/pods/web/proxy", "/")),
        (
            "/api/v1/namespaces/proxy-1/pods/proxy/proxy/a/b",
            ("/api/v1/namespaces/proxy-1/pods/proxy/proxy", "/a/b"),
        ),
    ],
)
def test_a_proxy_is_told_from_what_is_called_so(path: str, parts: tuple[str, str]) -> None:
    assert split_path(path) == parts


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("/a", "/p/proxy/a"),
        ("a", "a"),
        ("//other/a", "//other/a"),
        ("https://other/a", "https://other/a"),
        ("/p/proxy/a", "/p/proxy/a"),
    ],
)
def test_places_of_the_pods_own_lead_through_the_proxy(place: str, found: str) -> None:
    assert through_proxy(place, "/p/proxy") == found


def test_links_of_a_page_are_rewritten_and_its_text_is_not() -> None:
    page = b"""<a class="x" href="/rewriteme">href="/text"</a><IMG SRC='/i.png' alt="/a"><a href="near">"""
    assert rewrite_links(page, "/p/proxy") == (
        b"""<a class="x" href="/p/proxy/rewriteme">href="/text"</a>"""
        b"""<IMG SRC='/p/proxy/i.png' alt="/a"><a href="near">"""
    )
