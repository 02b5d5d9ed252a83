"""The operator as `quarterdeck up`, `run` and `manifests` know it."""

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import Resource, crd
from quarterdeck.runtime import KindOptions, Manager
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks

from .controller import team_controller
from .types import Team
from .webhook import one_team_each


class TeamOperator:
    name = "team"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        return [crd(Team)]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        manager.add(team_controller())
        return OperatorWebhooks(configuration="team-operator", admission=(one_team_each(manager.cache),))


def operator() -> Operator:
    return TeamOperator()
