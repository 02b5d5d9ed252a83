"""What only the cluster can tell: whether somebody is in another team already."""

from quarterdeck.runtime import Cache
from quarterdeck.runtime.webhook import Admission, Denied, Validator

from .controller import BY_MEMBER
from .types import Team


def one_team_each(cache: Cache) -> Validator[Team]:
    async def check(admission: Admission, team: Team) -> None:
        await cache.synced(Team)
        for member in team.spec.members:
            for other in cache.lookup(Team, BY_MEMBER(member)):
                if other.metadata.name != team.metadata.name:
                    raise Denied(f"{member} is in team {other.metadata.name} already")

    return Validator(Team, check)
