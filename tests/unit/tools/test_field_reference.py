"""Every field of our kinds says something in `kubectl explain`."""

from __future__ import annotations

import pytest

import field_reference
from quarterdeck.api import Model, Resource, crd, omitempty
from quarterdeck.runtime.operator import installed_operators


@pytest.mark.parametrize("name", field_reference.OPERATORS)
def test_no_field_is_without_a_sentence(name: str) -> None:
    found = [
        field
        for definition in installed_operators()[name].definitions()
        for field in field_reference.undescribed(dict(definition))
    ]
    assert found == []


class Spec(Model):
    mode: str = omitempty("")


class Thing(Resource, group="example.io", version="v1"):
    spec: Spec = omitempty(Spec())


def test_fields_of_others_are_not_described_for_them() -> None:
    assert field_reference.undescribed(crd(Thing)) == ["Thing.spec", "Thing.spec.mode"]
