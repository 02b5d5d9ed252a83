"""The page about the cluster names every controller that runs."""

from __future__ import annotations

from pathlib import Path

from quarterdeck.cluster.choice import ControllerChoice
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.runtime import Manager

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"
_ABBREVIATED = "certificatesigningrequest-"
"""The page names one of them in full."""


class _Listening(ControllerChoice):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def includes(self, name: str) -> bool:
        self.names.append(name)
        return False


async def test_the_page_names_every_controller(manager: Manager) -> None:
    choice = _Listening()
    workloads = Workloads(nodes=NodeSettings(count=1))
    add_controllers(
        manager, root_ca=b"x", sign_token=lambda *_: "", authority=b"", workloads=workloads, choice=choice
    )
    text = PAGE.read_text()
    missing = [
        name
        for name in choice.names
        if f"`{name}`" not in text and f"`…-{name.removeprefix(_ABBREVIATED)}`" not in text
    ]
    assert len(choice.names) > 40
    assert missing == []
