"""Who leads: what a process starts when it wins the lease, or a shard, and what it stops when it loses it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.runtime.contract import Elector, KeyElector
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.runnable import Group
from quarterdeck.runtime.manager.option import LeaderElectionLost
from quarterdeck.runtime.manager.runnable import RunnableGroup

_log: Final = get_logger(__name__)
_FIRST_SHARD: Final = 0
"""Who holds it runs what has to run exactly once."""


class Leadership:
    """The leader's part of a manager: the controllers, and the groups that only the leader runs."""

    def __init__(
        self,
        elector: Elector | KeyElector | None,
        groups: Mapping[Group, RunnableGroup],
        controllers: Mapping[str, Controller[Any]],
        *,
        is_stopping: Callable[[], bool],
        restarts: bool,
    ) -> None:
        """``restarts`` campaigns again after losing the lease, instead of ending the process."""
        self._elector: Final = elector
        self._groups: Final = groups
        self._controllers: Final = controllers
        self._is_stopping: Final = is_stopping
        self._restarts: Final = restarts
        self.is_leading = False

    def may_write(self, key: Key | None) -> bool:
        """The fence: whether a write of ours, on behalf of a key, cannot meet one of another leader."""
        elector = self._elector
        if isinstance(elector, KeyElector):
            return key is not None and elector.may_write(key)
        return elector is None or elector.may_write()

    async def campaign(self) -> None:
        """Lead whenever the lease is won; raises ``LeaderElectionLost``, and what the elector raises."""
        if self._elector is None:
            await self._start_leading()
            return
        while True:
            if isinstance(self._elector, KeyElector):
                await self._elector.run(self._won_shard, self._lost_shard)
            else:
                await self._elector.run(self._start_leading, self._lost_lease)
            if self._is_stopping():
                return
            if not self._restarts:
                raise LeaderElectionLost("leader election lost")
            _log.warning("leader election lost, campaigning again")

    async def _start_leading(self) -> None:
        self._start_controllers()
        self._groups[Group.LEADER].start()

    def _start_controllers(self) -> None:
        if self._is_stopping():
            return  # a process that is about to end must not begin to lead
        self.is_leading = True
        for runnable in self._groups[Group.WARMUP].runnables:
            if isinstance(runnable, Controller):
                runnable.lead()
        self._groups[Group.CONTROLLERS].start()

    async def _won_shard(self, shard: int) -> None:
        """Work on the keys of one more shard; the first one starts the controllers.

        What only one replica may do, and has no keys to share, comes with the first shard of all.
        """
        if not self.is_leading:
            self._start_controllers()
        else:
            mine = self._in_shard(shard)
            for controller in self._controllers.values():
                if controller.needs_leader_election:
                    controller.take_over(mine)
        if shard == _FIRST_SHARD and not self._is_stopping():
            self._groups[Group.LEADER].start()

    async def _lost_shard(self, shard: int) -> None:
        """Let go of the keys of a shard; the next leader may begin when nobody works on them here."""
        if shard == _FIRST_SHARD:
            await self._restart_later(self._groups[Group.LEADER])
        mine = self._in_shard(shard)
        for controller in self._controllers.values():
            if controller.needs_leader_election:
                await controller.hand_over(mine)

    def _in_shard(self, shard: int) -> Callable[[Key], bool]:
        elector = self._elector
        assert isinstance(elector, KeyElector)
        return lambda key: elector.shard(key) == shard

    async def _lost_lease(self) -> None:
        """Stop what only the leader may do, at once, and make it ready for another term."""
        self.is_leading = False
        if not self._restarts:
            return
        for group in (Group.LEADER, Group.CONTROLLERS, Group.WARMUP):
            await self._restart_later(self._groups[group])
        self._groups[Group.WARMUP].start()

    @staticmethod
    async def _restart_later(group: RunnableGroup) -> None:
        """Stop a group at once, and have it ready for another term."""
        runnables = group.runnables
        group.request_stop()
        await group.wait_stopped(0)
        await group.wait_cancelled()
        group.reset()
        for runnable in runnables:
            if isinstance(runnable, Controller):
                runnable.renew()
            group.add(runnable)
