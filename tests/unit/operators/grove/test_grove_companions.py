"""Where the gang scheduler runs in the same program, Grove knows it without being told."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.operators.grove.assembly import _with_companions
from quarterdeck.operators.grove.backends.registry import default_registry
from quarterdeck.operators.grove.configuration import OperatorConfiguration, load_configuration
from quarterdeck.runtime.operator import OperatorEnvironment


def configured(settings: dict[str, Any], **where: Any) -> OperatorConfiguration:
    environment = OperatorEnvironment(name="grove", settings=settings, **where)
    return load_configuration(_with_companions(environment), default_registry, refuses_unknown=True)


def schedulers(configuration: OperatorConfiguration) -> list[str]:
    found = configuration.scheduler
    return (
        [profile.name for profile in found.profiles] if found is not None else [configuration.scheduler_name]
    )


def test_kai_is_a_backend_beside_the_default_and_topology_is_on() -> None:
    found = configured({}, companions=frozenset({"kai"}), is_embedded=True)
    assert schedulers(found) == ["default-scheduler", "kai-scheduler"]
    assert found.scheduler_name == "default-scheduler"
    assert [level.domain for level in found.topology_aware_scheduling.levels] == ["zone", "host"]


@pytest.mark.parametrize(
    "where",
    [
        {"is_embedded": True},
        {"companions": frozenset({"kai"})},  # a real cluster has what its configuration says
    ],
)
def test_nothing_is_added_elsewhere(where: dict[str, Any]) -> None:
    found = configured({}, **where)
    assert schedulers(found) == ["default-scheduler"]
    assert not found.topology_aware_scheduling.enabled


def test_what_the_settings_say_wins() -> None:
    settings = {"schedulerName": "kai-scheduler", "topologyAwareScheduling": {"enabled": False}}
    found = configured(settings, companions=frozenset({"kai"}), is_embedded=True)
    assert schedulers(found) == ["kai-scheduler"]
    assert not found.topology_aware_scheduling.enabled
