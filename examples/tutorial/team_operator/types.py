"""What a Team is. The CustomResourceDefinition is made from these classes."""

from typing import Annotated

from quarterdeck.api import Column, Condition, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Cel, Ge, Len, ListMap, ListSet, Pattern

_FAIR = Cel("self.gpus <= 8 * size(self.members)", message="at most 8 GPUs for each member")


class TeamSpec(Model, rules=[_FAIR]):
    """What a team asks for."""

    members: Annotated[Seq[str], ListSet(), Len(min=1, max=100)]
    gpus: Annotated[int, Ge(0)] = 0


class TeamStatus(Model):
    """What became of it."""

    namespace: str = omitempty("")
    pods: int = 0
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class Team(
    Resource,
    group="example.io",
    version="v1",
    scope="Cluster",
    status=True,
    name_rules=[Pattern("^[a-z0-9-]{1,40}$")],
    columns=[
        Column("GPUs", ".spec.gpus", "integer"),
        Column("Pods", ".status.pods", "integer"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column.age(),
    ],
):
    """People who share a namespace and some GPUs."""

    spec: TeamSpec
    status: TeamStatus = omitempty(TeamStatus())
