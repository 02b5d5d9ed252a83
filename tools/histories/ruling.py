"""Deeds that change the rules: definitions, policies, webhooks, access, quotas, namespaces, the server."""

from __future__ import annotations

from typing import Any

from . import access, quota
from .access import Access
from .author import ASYNCHRONOUS, NAMES, NAMESPACES, PATCHES, UNSETTLED, Author
from .definition import NAMED, PATH, Definition
from .hook import FORMS, Hook
from .hook import NAMED as NAMED_HOOK
from .hook import PATH as HOOKS
from .kind import CONFIGMAPS, widgets
from .policy import Policy
from .quota import Quota
from .reading import Watches

Json = dict[str, Any]


class Definitions:
    """The history's own kind. The real server learns of an edit a little later: that is waited for."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._mark = 0

    def define(self, author: Author) -> None:
        self._mark += 1
        served = author.random.choice([("v1",), ("v1", "v2")])
        author.definition = Definition(mark=self._mark, served=served)
        author.admin("POST", PATH, body=author.definition.document(), drop=UNSETTLED)
        self._settle(author, author.definition)

    def edit(self, author: Author) -> None:
        if author.definition is None:
            self.define(author)
            return
        watches = self._watches.read_customs(author)
        author.definition = author.definition.edited(author.random, hides=author.hides_versions)
        self._mark = author.definition.mark
        change = author.definition.change()
        author.admin("PATCH", NAMED, body=change, type=PATCHES["merge"], drop=UNSETTLED)
        self._settle(author, author.definition)
        self._watches.end(author, watches)

    def remove(self, author: Author) -> None:
        if author.definition is None or author.definition.is_broken:
            return
        watches = self._watches.read_customs(author)
        for namespace in NAMESPACES:  # else it waits for whoever holds an object
            for name in NAMES:
                path = widgets(author.definition.served[0]).path(namespace, name)
                body = {"metadata": {"finalizers": None}}
                author.admin("PATCH", path, body=body, type=PATCHES["merge"])
        author.admin("DELETE", NAMED, drop=UNSETTLED)
        author.add("settle", method="GET", path=NAMED, code=404)
        for name in author.definition.served:
            author.add("settle", method="GET", path=widgets(name).path(""), code=404)
        self._watches.end(author, watches)
        author.forget_customs()
        author.definition = None

    @staticmethod
    def _settle(author: Author, definition: Definition) -> None:
        for name in ("v1", "v2", "v3"):
            kind = widgets(name)
            if name not in definition.served:
                author.add("settle", method="GET", path=kind.path(""), code=404)
                continue
            author.add(
                "settle",
                method="POST",
                path=kind.path("default"),
                query="dryRun=All",
                body=author.body(kind, "probe", spec={"mark": definition.mark + 1, "size": 1}),
                code=422,
                seen=f"less than or equal to {definition.mark}",
            )
        author.admin("GET", NAMED, drop=ASYNCHRONOUS)


class Rules:
    """Policy, webhook, access and quota of the first namespace; each edit has a number that shows."""

    def __init__(self) -> None:
        self._generation = 0
        self._policy: Policy | None = None
        self._hook: Hook | None = None
        self._quota: Quota | None = None

    def _next(self) -> int:
        self._generation += 1
        return self._generation

    def change_policy(self, author: Author) -> None:
        if self._policy is not None and author.random.random() < 0.3:
            for method, path, body in self._policy.removal():
                author.admin(method, path, body=body, drop=ASYNCHRONOUS)
            self._policy = None
        else:
            is_new = self._policy is None
            self._policy = Policy(self._next(), author.random.choice(["a", "b"]))
            for method, path, body in self._policy.creation() if is_new else self._policy.edit():
                kind = PATCHES["merge"] if method == "PATCH" else None
                author.admin(method, path, body=body, type=kind, drop=ASYNCHRONOUS)
        seen, code = (self._policy.refusal, 422) if self._policy else ("", 201)
        self._try_configmap(author, "probe", seen=seen, code=code)

    def change_hook(self, author: Author) -> None:
        if self._hook is not None and author.random.random() < 0.4:
            author.admin("DELETE", NAMED_HOOK)
            self._hook = None
        else:
            is_new = self._hook is None
            self._hook = Hook(self._next(), author.random.choice(FORMS), not author.hides_versions)
            if is_new:
                author.admin("POST", HOOKS, body=self._hook.document())
            else:
                change = {"webhooks": self._hook.webhooks()}
                author.admin("PATCH", NAMED_HOOK, body=change, type=PATCHES["merge"])
        if self._hook:
            self._try_configmap(author, "hook-probe", seen=self._hook.sign, code=self._hook.code)
        else:
            self._try_configmap(author, "hook-probe", unseen="hook-edit", code=201)

    @staticmethod
    def _try_configmap(author: Author, name: str, **wanted: Any) -> None:
        path = CONFIGMAPS.path(NAMESPACES[0])
        body = author.body(CONFIGMAPS, name)
        author.add("settle", method="POST", path=path, query="dryRun=All", body=body, **wanted)

    def change_access(self, author: Author) -> None:
        random, before = author.random, author.access
        if before is not None and random.random() < 0.3:
            what = random.choice([access.ROLES, access.BINDINGS])
            author.admin("DELETE", f"{what}/jane")
            author.access = None
            review = {"body": before.review(), "code": 201, "unseen": '"allowed":true'}
            author.add("settle", method="POST", path=access.REVIEWS, **review)
            for each in (access.ROLES, access.BINDINGS):
                author.admin("DELETE", f"{each}/jane")
            return
        groups = random.choice([("*",), ("", "apps"), ("", "$u.example.com", "rbac.authorization.k8s.io")])
        after = author.access = Access(self._next(), tuple(random.choice(access.FORMS)), groups)
        if before is None:
            author.admin("POST", access.ROLES, body=after.role())
            author.admin("POST", access.BINDINGS, body=after.binding())
        else:
            change = {"rules": after.rules()}
            author.admin("PATCH", f"{access.ROLES}/jane", body=change, type=PATCHES["merge"])
        review = {"body": after.review(), "code": 201, "seen": '"allowed":true'}
        author.add("settle", method="POST", path=access.REVIEWS, **review)

    def change_quota(self, author: Author) -> None:
        random = author.random
        pod: Json = {"method": "POST", "path": quota.PODS, "query": "dryRun=All", "body": quota.probe()}
        if self._quota is not None and random.random() < 0.3:
            author.admin("DELETE", quota.NAMED)
            self._quota = None
            author.add("settle", **pod, code=201)
            return
        is_new = self._quota is None
        counted = random.sample(quota.COUNTED, 3)
        hard = tuple((name, random.randint(1, 4)) for name in counted)
        if self._quota is not None:
            hard = tuple((name, random.randint(1, 6)) for name, _ in self._quota.hard)
        self._quota = Quota(self._next(), hard)
        if is_new:
            author.admin("POST", quota.PATH, body=self._quota.document())
        else:
            author.admin("PATCH", quota.NAMED, body=self._quota.edit(), type=PATCHES["merge"])
        status = self._quota.status(is_new=is_new)
        author.admin("PATCH", f"{quota.NAMED}/status", body=status, type=PATCHES["merge"])
        author.add("settle", **pod, code=403, seen=self._quota.sign)

    def read_quota(self, author: Author) -> None:
        if self._quota is not None:
            author.admin("GET", quota.NAMED)


def create_namespace(author: Author, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    author.admin("POST", "/api/v1/namespaces", body=body)


def end_namespace(author: Author) -> None:
    """The second namespace goes, with nobody there who would empty it first, and comes again."""
    namespace = NAMESPACES[1]
    path = f"/api/v1/namespaces/{namespace}"
    known = author.builtins if author.cannot_convert else author.kinds()
    kinds = [kind for kind in known if kind.is_namespaced]
    for name in NAMES if kinds else ():
        kind = author.random.choice(kinds)
        author.admin("POST", kind.path(namespace), body=author.body(kind, name, **kind.make(author.random)))
    author.admin("DELETE", path)
    if kinds:
        kind = author.random.choice(kinds)
        body = author.body(kind, "late", **kind.make(author.random))
        author.admin("POST", kind.path(namespace), body=body)
        merge = {"metadata": {"labels": {"app": author.random.choice("abc")}}}
        author.admin("PATCH", kind.path(namespace, NAMES[0]), body=merge, type=PATCHES["merge"])
        author.admin("DELETE", kind.path(namespace, NAMES[0]))
    number = author.admin("GET", path)
    body = {"$from": number, "$merge": {"spec": {"finalizers": None}}}
    author.admin("PUT", f"{path}/finalize", body=body)
    author.admin("GET", path)
    if kinds:
        author.admin("GET", author.random.choice(kinds).path(namespace))
    create_namespace(author, namespace)


class Host:
    """What happens to the server: it is ended and started again, forgets, and its clock goes on."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._restarts = 0

    def restart(self, author: Author) -> None:
        if self._restarts and author.random.random() < 0.6:
            return
        self._restarts += 1
        for watch in list(author.watches):
            self._watches.read(author, watch, closes=True)
        if author.random.random() < 0.4:
            author.add("compact")
        author.add("restart", how=author.random.choice(["TERM", "KILL"]))

    @staticmethod
    def pass_time(author: Author) -> None:
        author.add("clock")
