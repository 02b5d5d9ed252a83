"""Choosing controllers by name."""

from __future__ import annotations

import pytest

from quarterdeck.cluster.choice import ALL_CONTROLLERS, ControllerChoice
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import ConfigError
from quarterdeck.runtime import Manager

KNOWN = ("deployment-controller", "replicaset-controller", "jobset")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("deployment", ["deployment-controller"]),
        ("deployment-controller,jobset", ["deployment-controller", "jobset"]),
        ("*", list(KNOWN)),
        ("*,-jobset", ["deployment-controller", "replicaset-controller"]),
        ("none", []),
        ("", []),
    ],
)
def test_names_choose_controllers(text: str, chosen: list[str]) -> None:
    choice = ControllerChoice.parse(text)
    assert [name for name in KNOWN if choice.includes(name)] == chosen
    choice.check(KNOWN)


def test_a_name_that_nobody_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no deploy; there are deployment, jobset, replicaset"):
        ControllerChoice.parse("deploy").check(KNOWN)
    with pytest.raises(ConfigError, match="-jobset takes away from nothing"):
        ControllerChoice.parse("-jobset")
    assert ALL_CONTROLLERS.includes("anything")


async def test_only_chosen_controllers_are_added(manager: Manager) -> None:
    add_controllers(
        manager,
        root_ca=b"",
        workloads=Workloads(),
        choice=ControllerChoice.parse("jobset,namespace"),
        elsewhere=("jobset",),
    )
    added = {each.name for each in manager.statistics().controllers}
    assert added == {"namespace-controller"}
