"""YAML answers: the bytes that Go's servers write, for about the price of JSON."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import msgspec
import pytest
import yaml

from quarterdeck.apiserver.document.yamltext import (
    UnusualKey,
    _dumped,
    _sorted,
    list_item,
    to_yaml,
)

#: data of a ConfigMap, and the lines kube-apiserver 1.36.3 answers with
ANSWERED = [
    ("", '""'),
    ("word", "word"),
    ("two words", "two words"),
    ("true", '"true"'),
    ("Yes", '"Yes"'),
    ("y", '"y"'),
    ("null", '"null"'),
    ("1", '"1"'),
    ("08", '"08"'),
    ("1.2.3", "1.2.3"),
    ("1e3", '"1e3"'),
    ("-x", "-x"),
    ("- x", "'- x'"),
    ("=", "="),
    ("<<", "<<"),
    ("*", "'*'"),
    ("n", '"n"'),
    ("...", "'...'"),
    ("a: b", "'a: b'"),
    ("a:b", "a:b"),
    ("a #b", "'a #b'"),
    ("10Gi", "10Gi"),
    ("sha256:abc", "sha256:abc"),
    ("2026-11-16T18:44:19Z", '"2026-11-16T18:44:19Z"'),
    ("tab\there", '"tab\\there"'),
    ("it's", "it's"),
    ("'quoted'", "'''quoted'''"),
    ("line\n", "|\n  line"),
    ("one\ntwo", "|-\n  one\n  two"),
]


@pytest.mark.parametrize(("text", "line"), ANSWERED)
def test_texts_are_quoted_where_go_quotes_them(text: str, line: str) -> None:
    assert to_yaml({"k": text}).decode() == f"k: {line}\n"


def test_keys_are_sorted_by_the_numbers_in_them_and_letters_come_last() -> None:
    keys = ["a10", "a2", "ab", "a_b", "AB", "A_", "k01", "k1", "x00", "x0", "10", "9"]
    found = [
        line.split(b":")[0].strip(b'"').decode() for line in to_yaml(dict.fromkeys(keys, 1)).splitlines()
    ]
    assert found == ["9", "10", "A_", "AB", "a_b", "a2", "a10", "ab", "k1", "k01", "x0", "x00"]


TEXTS = [
    *(text for text, _ in ANSWERED if text not in ("=", "<<")),  # Python's reader takes these otherwise
    "words " * 30,
    "x" * 130,
    " before",
    "after ",
    "\u2028",
    "\x07",
    "ünï",
    "yes ...",
    "[x]",
    "{x}",
    "*x",
    "a\n b\n\n",
    "trail \nx",
]


def tree(dice: random.Random, depth: int) -> Any:
    chance = dice.random()
    if depth and chance < 0.35:
        return {dice.choice(TEXTS) + dice.choice(["", "k"]): tree(dice, depth - 1) for _ in range(3)}
    if depth and chance < 0.6:
        return [tree(dice, depth - 1) for _ in range(dice.randrange(4))]
    if chance < 0.9:
        return " ".join(dice.choice(TEXTS) for _ in range(dice.randrange(1, 4)))
    return dice.choice([None, True, False, 0, -7, 10**12, 0.25, {}, []])


def test_whatever_is_written_reads_as_the_same_document() -> None:
    dice = random.Random(4)
    for _ in range(300):
        document = {"first": tree(dice, 4), "second": tree(dice, 3)}
        assert yaml.safe_load(to_yaml(document)) == document


def test_it_is_what_libyaml_writes_of_the_whole() -> None:
    dice = random.Random(7)
    for _ in range(150):
        document = {"first": tree(dice, 4), "second": [{"a": tree(dice, 2), "b": tree(dice, 2)}]}
        assert to_yaml(document).decode() == _dumped(_sorted(document))


def test_an_item_of_a_list_is_what_it_is_in_the_list() -> None:
    dice = random.Random(8)
    for _ in range(100):
        item = {"first": tree(dice, 3), "second": tree(dice, 2)}
        try:
            written = list_item(msgspec.json.encode(item))
        except UnusualKey:
            continue
        assert b"items:\n" + written == to_yaml({"items": [item]})


def test_a_pod_costs_a_few_times_as_many_calls_as_json_has_nodes() -> None:
    container = {"name": "c", "image": "registry/image:v1", "args": ["--x=1"], "resources": {"limits": {}}}
    pods = [
        {
            "metadata": {"name": f"pod-{number}", "labels": {"app": "web", "number": str(number)}},
            "spec": {"containers": [container], "nodeName": f"node-{number}"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(50)
    ]
    document = msgspec.json.decode(json.dumps({"kind": "PodList", "items": pods}))
    to_yaml(document)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    to_yaml(document)
    sys.setprofile(None)
    nodes = 50 * 22
    assert calls < 8 * nodes, f"{calls} calls for {nodes} nodes"
