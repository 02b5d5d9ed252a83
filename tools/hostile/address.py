"""Paths, queries, headers and identities that are not what they should be."""

from __future__ import annotations

import base64
import random
from typing import Any
from urllib.parse import quote, urlencode

from .client import Request
from .corpus import Corpus
from .media import JSON
from .mutation import encode, spoil


def selector(rng: random.Random, corpus: Corpus) -> Request:
    pieces = [
        "a",
        "b/c",
        "=",
        "==",
        "!=",
        "!",
        ",",
        "(",
        ")",
        " in ",
        " notin ",
        ">",
        "<",
        "\\",
        "1",
        "metadata.name",
    ]
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 12)))
    text = rng.choice(
        [text, text, text, text * 1000, "a in (" + ",".join(map(str, range(20000))) + ")", "\x00", "ä"]
    )
    name = rng.choice(["labelSelector", "fieldSelector"])
    path = rng.choice([f"{corpus.core}/configmaps", f"{corpus.core}/pods", corpus.targets, *corpus.lists])
    words = {name: text[:20000]} | rng.choice([{}, {}, {"watch": "1", "timeoutSeconds": "1"}])
    return Request(
        "selector", rng.choice(["GET", "GET", "GET", "DELETE"]), f"{path}?{urlencode(words)}", JSON
    )


def query(rng: random.Random, corpus: Corpus) -> Request:
    """Numbers, tokens and words in the query that are none."""
    numbers = ["", "0", "-1", "1", "abc", "1.5", "9" * 30, "0x1", " 1", "1e3", "true", "%00", str(2**63)]
    odd = [
        "",
        "x",
        "All",
        "all",
        "true",
        "1",
        "maybe",
        "\x00",
        "ä",
        "a" * 200,
        "[]",
        "Strict",
        "Orphan",
        "Exact",
    ]
    token = base64.urlsafe_b64encode(
        rng.choice(
            [
                b"",
                b"{}",
                b"[]",
                b"\xff",
                b'{"v":"meta.k8s.io/v1","rv":-1,"start":"../"}',
                b'{"v":"x","rv":"a"}',
                rng.randbytes(20),
            ]
        )
    ).decode()
    choices: dict[str, list[str]] = {
        "limit": numbers,
        "continue": [token, token.rstrip("="), *odd],
        "resourceVersion": [each for each in numbers if each != "9" * 30],
        "resourceVersionMatch": [*odd, "NotOlderThan"],
        "timeoutSeconds": ["0", "1", "-1", "abc", "1.5"],
        "watch": ["", "0", "false", "maybe", "1"],
        "sendInitialEvents": odd,
        "allowWatchBookmarks": odd,
        "dryRun": odd,
        "fieldManager": odd,
        "fieldValidation": odd,
        "force": odd,
        "gracePeriodSeconds": numbers,
        "propagationPolicy": odd,
        "orphanDependents": odd,
        "pretty": odd,
        "includeObject": odd,
    }
    names = rng.sample(list(choices), rng.choice([1, 1, 2, 3]))
    words = {name: rng.choice(choices[name]) for name in names}
    # A stream without an end would be no finding.
    if words.get("watch") is not None:
        words["timeoutSeconds"] = "1"
    template = rng.choice(corpus.templates)
    if template.method == "GET":
        template = rng.choice([each for each in corpus.templates if each.method == "GET"])
    return template.request("query", query={**template.query, **words})


def path(rng: random.Random, corpus: Corpus) -> Request:
    """Paths that are long, strange, or only look like others."""
    pieces = [
        "api",
        "apis",
        "v1",
        "namespaces",
        "configmaps",
        "pods",
        "a",
        "..",
        ".",
        "%2e%2e",
        "%2F",
        "%00",
        "%zz",
        "%ff",
        "apps",
        "status",
        "openapi",
        "v3",
        "v2",
        "healthz",
        "watch",
        "é",
        "finalize",
        ";x=y",
        "*",
        "logs",
        "metrics",
        "version",
        corpus.namespace,
        "",
        "a" * 1000,
    ]
    text = "/" + "/".join(rng.choice(pieces) for _ in range(rng.randrange(1, 10)))
    text = rng.choice(
        [
            text,
            text,
            text,
            "/" + "a" * 60_000,
            "/a" * 20_000,
            "/?" + "a=b&" * 10_000,
            "//",
            "/%",
            text + "?%",
            text + "?a=%zz",
        ]
    )
    return Request(
        "path",
        rng.choice(["GET", "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
        quote(text, safe="/%?=&;*~:+"),
        JSON,
    )


def accept(rng: random.Random, corpus: Corpus) -> Request:
    """Accept headers from pieces of real ones."""
    pieces = [
        "application/json",
        "application/yaml",
        "*/*",
        "application/vnd.kubernetes.protobuf",
        "as=Table",
        "v=v1",
        "g=meta.k8s.io",
        ";",
        ";",
        ",",
        "q=0.5",
        "q=x",
        "as=PartialObjectMetadata",
        "as=APIGroupDiscoveryList",
        "g=apidiscovery.k8s.io",
        "v=v2",
        "stream=watch",
        "=",
        '"',
        "",
        " ",
        "x" * 500,
    ]
    text = "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 9)))
    where = rng.choice(
        [
            *corpus.lists,
            "/api",
            "/apis",
            "/openapi/v3",
            "/openapi/v2",
            f"{corpus.core}/pods?watch=1&timeoutSeconds=1",
        ]
    )
    return Request("accept", "GET", where, (("Accept", text.strip()),))


def identity(rng: random.Random, corpus: Corpus) -> Request:
    """Impersonation headers and bearer tokens beside the certificate."""
    odd = [
        "",
        "alice",
        "system:anonymous",
        "system:serviceaccount:",
        "system:serviceaccount:a:b",
        "system:node:",
        "a" * 5000,
        "ä",
        "system:masters",
    ]
    names = [
        f"Impersonate-{word}" for word in ("User", "Group", "Uid", "Extra-a%zz", "Extra-", "Extra-Scopes")
    ]
    tokens = [
        "Bearer x",
        "Bearer ",
        "Basic YTpi",
        "bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer a.b.c",
        "Digest",
    ]
    tokens += ["Bearer " + "a" * 10_000, "Bearer eyJhbGciOiJSUzI1NiJ9.e30." + "A" * 200]
    chosen = rng.sample([*names, "Authorization"], rng.randrange(1, 4))
    extra = tuple((name, rng.choice(tokens if name == "Authorization" else odd)) for name in chosen)
    return Request("identity", "GET", rng.choice([*corpus.lists, "/api", "/metrics"]), (*JSON, *extra))


def stranger(rng: random.Random, corpus: Corpus) -> Request:
    """No certificate and a bad token, or none: nothing but 401."""
    tokens = ["x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "e30.e30.e30", "." * 500, "A" * 20_000]
    tokens += ["eyJhbGciOiJIUzI1NiIsImtpZCI6IngifQ.e30.AAAA"]
    extra = rng.choice([(), (("Authorization", "Bearer " + rng.choice(tokens)),)])
    method = rng.choice(["GET", "POST", "DELETE"])
    where = rng.choice([f"{corpus.core}/configmaps", "/api", f"{corpus.core}/secrets"])
    return Request(
        "stranger", method, where, (*JSON, *extra), b"{}" if method == "POST" else b"", expect=(401,)
    )


def review(rng: random.Random, corpus: Corpus) -> Request:
    """Reviews, tokens, evictions and bindings: bodies that are not stored but worked on."""
    authorization, authentication = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
    resource = {"verb": "get", "resource": "pods", "namespace": "a"}
    request = {"path": "/x", "verb": "get"}
    pod = {"kind": "Pod", "apiVersion": "v1", "name": "a"}
    options = {"gracePeriodSeconds": 0, "dryRun": ["All"]}
    bases: dict[str, dict[str, Any]] = {
        f"{authorization}/selfsubjectaccessreviews": {"spec": {"resourceAttributes": resource}},
        f"{authorization}/subjectaccessreviews": {
            "spec": {"user": "a", "groups": ["b"], "nonResourceAttributes": request}
        },
        f"{authorization}/selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
        f"{authentication}/tokenreviews": {"spec": {"token": "a.b.c", "audiences": ["x"]}},
        f"{authentication}/selfsubjectreviews": {"metadata": {}},
        f"{corpus.core}/serviceaccounts/default/token": {
            "spec": {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": pod}
        },
        f"{corpus.core}/pods/a/eviction": {"metadata": {"name": "a"}, "deleteOptions": options},
        f"{corpus.core}/pods/b/binding": {
            "metadata": {"name": "b"},
            "target": {"kind": "Node", "name": "n"},
        },
    }
    where, base = rng.choice(list(bases.items()))
    return Request("review", "POST", where, JSON, encode(spoil(base, rng, rng.choice([1, 1, 2]))))
