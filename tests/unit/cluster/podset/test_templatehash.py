"""Hashes of pod templates, as a Go program made them (``tools/kube/typetable hash``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import from_dict
from quarterdeck.api.k8s import PodTemplateSpec
from quarterdeck.cluster.podset.godump import dump
from quarterdeck.cluster.podset.templatehash import fnv32, fnv32a, fnv128a, safe_encode, template_hash

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("templates.json").read_text())


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each["hash"])
def test_a_template_is_dumped_and_hashed_as_go_does(recorded: dict[str, Any]) -> None:
    assert dump("v1.PodTemplateSpec", recorded["template"]) == recorded["dump"]
    assert template_hash(from_dict(recorded["template"], PodTemplateSpec)) == recorded["hash"]


def test_a_collision_changes_the_hash() -> None:
    template = from_dict(RECORDED[1]["template"], PodTemplateSpec)
    assert len({template_hash(template, count) for count in (None, 0, 1)}) == 3


def test_known_values_of_the_hash_functions() -> None:
    assert (fnv32a(b"foobar"), fnv32(b"foobar")) == (0xBF9CF968, 0x31F0B262)
    assert fnv128a(b"foobar") == 0x343E1662793C64BF6F0D3597BA446F18


def test_encoded_text_has_no_vowels() -> None:
    assert safe_encode("0123456789") == "456789bcdf"
