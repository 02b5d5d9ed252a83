"""The installed operators, as the commands find them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from quarterdeck.cli.error import CommandError
from quarterdeck.cli.operators import chosen_operators, settings_of
from quarterdeck.client import Config
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.operator import OperatorEnvironment, installed_operators
from quarterdeck.runtime.operator.program import Program, ProgramOptions


def asked(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**{"operators": None, "config": None, **values})


def test_every_installed_operator_brings_definitions_under_its_own_name() -> None:
    operators = installed_operators()
    assert "nodegroup" in operators
    for name, operator in operators.items():
        assert operator.name == name
        assert all(each["kind"] == "CustomResourceDefinition" for each in operator.definitions())


def test_operators_are_chosen_by_name_and_none_means_none() -> None:
    assert [each.name for each in chosen_operators(asked(operators="nodegroup, nodegroup"))] == ["nodegroup"]
    assert chosen_operators(asked(operators="none")) == []
    with pytest.raises(CommandError, match=r"no operator 'nodegroups'; installed are: .*nodegroup"):
        chosen_operators(asked(operators="nodegroups"))


def test_settings_come_from_the_file_and_errors_name_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("operators: {ipam: {workers: 3}}")
    assert settings_of(asked(config=file)).operators == {"ipam": {"workers": 3}}
    file.write_text("operator: {}")
    with pytest.raises(ConfigError, match=r"config\.yaml: unknown field operator"):
        settings_of(asked(config=file))
    with pytest.raises(ConfigError, match="No such file"):
        settings_of(asked(config=tmp_path / "missing.yaml"))


@pytest.mark.parametrize("name", ["grove", "ipam", "kai", "nodegroup", "trainer"])
def test_every_operator_refuses_a_setting_it_does_not_have(name: str) -> None:
    operator = installed_operators()[name]
    options = ProgramOptions(settings={name: {"sped": 1}})
    with pytest.raises(ConfigError, match=rf"operators\.{name}: .*sped"):
        Program(Config(server="https://127.0.0.1"), [operator], options)


def test_a_wrong_setting_names_operator_and_field() -> None:
    import msgspec

    class Settings(msgspec.Struct, forbid_unknown_fields=True):
        workers: int = 5

    environment = OperatorEnvironment(name="ipam", settings={"workers": "many"})
    with pytest.raises(ConfigError, match=r"operators\.ipam: workers: must be an integer, not a string"):
        environment.decode(Settings)
