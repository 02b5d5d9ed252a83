"""Deeds that read: get, list at revisions and in pages, watches in their forms."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from .author import Author, answered, query_of
from .kind import Kind, widgets

Json = dict[str, Any]
_AS: Final = "application/json;as={};v={};g=meta.k8s.io"
_OBJECT_FORMS: Final = tuple(
    _AS.format(kind, version) for kind in ("Table", "PartialObjectMetadata") for version in ("v1", "v1beta1")
)
_LIST_FORMS: Final = tuple(
    _AS.format(kind, version)
    for kind in ("Table", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)
_YAML: Final = "application/yaml"
_STREAM: Final = "application/json;stream=watch"
#: `read` writes objects with app=all
_SELECTORS: Final = (
    "",
    "labelSelector=app+in+(a,all)",
    "labelSelector=app",
    "labelSelector=app,tier!%3Dx",
    "fieldSelector=metadata.name!%3Done",
)
_OWN_SELECTORS: Final = ("labelSelector=u%3D$u", "labelSelector=u%3D$u,app+in+(a,all)")
_INITIAL: Final = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def _selector(random: Random, kind: Kind) -> str:
    return random.choice(_SELECTORS if kind.is_namespaced else _OWN_SELECTORS)


def get(author: Author) -> None:
    kind, namespace, name = author.known()
    accept = author.random.choice(["", "", "", _YAML, *_OBJECT_FORMS])
    author.request("GET", kind.path(namespace, name), accept=accept)


def list_objects(author: Author) -> None:
    random = author.random
    kind, namespace = author.collection()
    query = [_selector(random, kind)]
    match = "Exact"
    if random.random() < 0.5 and author.revisions:
        number = random.choice(author.revisions)
        match = random.choice(["Exact", "Exact", "NotOlderThan", ""])
        query += [f"resourceVersion={answered(number, 'rv')}", match and f"resourceVersionMatch={match}"]
    if random.random() < 0.1:
        query.append("limit=2")
    accept = random.choice(["", "", "", "", "", _YAML, *_LIST_FORMS])
    path = kind.path(namespace if random.random() < 0.8 or not kind.is_custom else "")
    number = author.request("GET", path, query=query_of(*query), accept=accept)
    if match == "Exact":  # else the real server's cache may be at another revision than ours
        author.revisions.append(number)


class Pages:
    """Lists in pages: a token may be used again, and after any change."""

    def __init__(self) -> None:
        self._begun: list[tuple[int, str, str]] = []

    def page(self, author: Author) -> None:
        random = author.random
        limit = f"limit={random.choice([1, 1, 2])}"
        begun = [each for each in self._begun if not (author.cannot_convert and "/widgets" in each[1])]
        if begun and random.random() < 0.6:
            number, path, selector = random.choice(begun)
            token = f"continue={answered(number, 'continue')}"
            if random.random() < 0.05:
                token += "&resourceVersion=1"
            self._begun.append(
                (author.admin("GET", path, query=query_of(selector, limit, token)), path, selector)
            )
            return
        kind, namespace = author.collection()
        selector = _selector(random, kind)
        path = kind.path(namespace)
        if random.random() < 0.2 and author.revisions:
            number = random.choice(author.revisions)
            limit += f"&resourceVersion={answered(number, 'rv')}&resourceVersionMatch=Exact"
        self._begun.append((author.admin("GET", path, query=query_of(selector, limit)), path, selector))


class Watches:
    """Streams are opened at any known revision, read now and then, or only at the end, and resumed."""

    def __init__(self) -> None:
        #: what was watched: (kind, namespace, fields of the step without the revision)
        self._opened: dict[int, tuple[Kind, str, Json]] = {}
        #: closed ones: (the last read, the watch)
        self._closed: list[tuple[int, int]] = []

    def watch(self, author: Author) -> None:
        random = author.random
        if len(author.watches) >= 3:
            self.read(author, random.choice(list(author.watches)), closes=True)
            return
        kind, namespace = author.collection()
        accept = random.choice(["", "", "", "", _STREAM, _YAML, *_OBJECT_FORMS])
        where = namespace if random.random() < 0.8 or not kind.is_custom else ""
        fields = {
            "path": kind.path(where),
            "query": _selector(random, kind),
            "accept": accept,
            "unread": random.random() < 0.25,
        }
        begin = ""
        if author.revisions and random.random() < 0.8:
            recent = author.revisions[-6:] if random.random() < 0.6 else author.revisions
            begin = f"resourceVersion={answered(random.choice(recent), 'rv')}"
            if random.random() < 0.1:
                begin += f"&{_INITIAL}"
        elif random.random() < 0.5:
            begin = _INITIAL
        self._open(author, kind, namespace, fields, begin)

    def resume(self, author: Author) -> None:
        """From where an earlier one was closed."""
        if self._closed and len(author.watches) < 3:
            read, watch = author.random.choice(self._closed)
            if author.cannot_convert and self._opened[watch][0].is_custom:
                return
            self._open(author, *self._opened[watch], f"resourceVersion={answered(read, 'rv')}")

    def _open(self, author: Author, kind: Kind, namespace: str, fields: Json, begin: str) -> None:
        query = query_of("watch=true", fields["query"], begin)
        number = author.add("watch", **{**fields, "query": query})
        self._opened[number] = kind, namespace, fields
        author.watches[number] = kind, namespace

    def read_some(self, author: Author) -> None:
        if author.watches:
            self.read(author, author.random.choice(list(author.watches)), closes=author.random.random() < 0.5)

    def read(self, author: Author, watch: int, *, closes: bool) -> None:
        kind, namespace = author.watches[watch]
        if kind.is_custom and author.definition:
            kind = widgets(author.definition.served[0])
        number = len(author.steps)
        content = {"spec": {}} if kind.is_custom else kind.make(Random(0))
        body = author.body(kind, f"zz-{number}", {"app": "all"}, **content)
        author.add("read", watch=watch, path=kind.path(namespace), body=body, closes=closes)
        author.revisions.append(number)
        if closes:
            del author.watches[watch]
            self._closed.append((number, watch))

    def read_customs(self, author: Author) -> list[int]:
        """Everything that open watches of the own kind have shown, before what may end them."""
        watches = [watch for watch, (kind, _) in author.watches.items() if kind.is_custom]
        for watch in watches:
            self.read(author, watch, closes=False)
        return watches

    def end(self, author: Author, watches: list[int]) -> None:
        for watch in watches:
            author.add("ended", watch=watch)
            del author.watches[watch]

    def expire(self, author: Author) -> None:
        """One that ends by itself."""
        kind, namespace = author.collection()
        query = query_of("watch=true&timeoutSeconds=1", _selector(author.random, kind))
        author.add("ended", watch=author.add("watch", path=kind.path(namespace), query=query))
