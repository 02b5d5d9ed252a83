"""The story of all operators on bad days: ten minutes of virtual time under faults that follow from a seed.

The operators run as on a cluster: two replicas of one program, of which one leads. Watches are cut and
expire, requests are refused (409, 429, 500), their answers get lost, the leader is killed, nodes fail or
vanish, and the clocks of the replicas differ. Somebody replaces what operators made, takes names that they
want, and edits definitions (``chaosedit``). If asked to, the API server goes back to a backup of half a
minute ago, once. All the while the invariants of `quarterdeck check` are looked at over the API; in the end,
when it is quiet, the story has come to its end and nothing is broken.

Import it only where nothing depends on luck: see ``chaosseed``, which runs it.
"""

from __future__ import annotations

import asyncio
import os
import random
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from quarterdeck.api import DynamicObject
from quarterdeck.api.invariant import Broken
from quarterdeck.api.k8s import Lease, Node
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.apiserver import Durability, ServerOptions
from quarterdeck.cli.check.command import find_broken, installed_invariants
from quarterdeck.cli.check.storage import find_storage_faults
from quarterdeck.cli.story.telling import Teller
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.names import FAILED
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.testing import (
    READS,
    WRITES,
    CutWatch,
    FaultPlan,
    Latency,
    LoopElector,
    LoseAnswer,
    Refuse,
    RefuseConnection,
    RepeatEvents,
    WatchError,
    run,
)
from tests.faults.chaosedit import edit_definition, replace_object, take_name
from tests.integration.concertkit import Concert, concert

TROUBLE: Final = 540.0
"""Seconds of bad weather."""
CALM: Final = 20.0
PATIENCE: Final = 60.0
"""Seconds that the last step of the story has after that."""
LOOK: Final = 5.0
"""Seconds between two looks at what must hold at every moment."""
SETTLE: Final = 10.0
"""Seconds that the controllers have, three times at most, to mend what may be broken for a moment."""
RESTORED: Final = int(os.environ.get("CHAOS_RESTORED", "0"))
"""Each so-manyth seed has a restored server, 0 for none: `chaos.py --restored`."""
WORK_LIMIT: Final = 60.0
"""CPU seconds that a seed may take; it needs about three. What runs for ever is a finding."""
_LEASE: Final = LeaderElection(name="quarterdeck", namespace="default")
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class Report(msgspec.Struct):
    """What became of one seed."""

    seed: int
    problem: str = ""
    struck: dict[str, int] = {}
    """How often each fault struck."""


class SkewedClock(LoopClock):
    """A clock whose date is wrong by some seconds."""

    def __init__(self, offset: float) -> None:
        self._offset: Final = offset

    def time(self) -> float:
        return super().time() + self._offset


def weather(seed: str, since: float = 0.0) -> FaultPlan:
    """What one line to the server meets, until the trouble is over."""
    until = TROUBLE - since
    return FaultPlan(
        random.Random(seed).randrange(1 << 30),
        Refuse(429, retry_after=1, rate=0.02, until=until),
        Refuse(409, message="the object has been modified", rate=0.05, verbs=WRITES, until=until),
        Refuse(500, rate=0.02, until=until),
        RefuseConnection(rate=0.02, verbs=READS, until=until),
        LoseAnswer(rate=0.02, verbs=WRITES, until=until),
        Latency((0.0, 0.2), rate=0.2, until=until),
        CutWatch((20.0, 240.0), until=until),
        WatchError(410, (20.0, 200.0), rate=0.3, until=until),
        RepeatEvents(rate=0.02, until=until),
    )


class Replica:
    """One process with all operators; it leads if it holds the Lease."""

    def __init__(self, world: Concert, name: str, dice: random.Random, since: float) -> None:
        clock = SkewedClock(dice.uniform(-30.0, 30.0))
        self.links: Final = [
            world.cluster.link(weather(f"{name} {part} {dice.random()}", since), name=f"{name}'s {part}")
            for part in ("work", "lease")
        ]
        self.elector: Final = LoopElector(
            self.links[1], msgspec.structs.replace(_LEASE, identity=name), clock=clock
        )
        self.manager: Final = world.all_operators(self.links[0], self.elector, clock)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="replica")

    async def _run(self) -> None:
        async with self.manager:
            await self.manager.serve()

    @property
    def is_over(self) -> bool:
        """Whether the process has ended by itself, as it does when it loses the Lease."""
        return self._task is not None and self._task.done()

    @property
    def may_write(self) -> bool:
        return not self.links[0].is_cut and self.manager.is_leading and self.elector.may_write()

    async def kill(self) -> None:
        """End it as SIGKILL does: nothing more gets out."""
        for link in self.links:
            link.cut()
        await self.stop()

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError, QuarterdeckError):
            await self._task


class Chaos:
    """The troublemaker of one seed."""

    def __init__(self, world: Concert, seed: int) -> None:
        self.world: Final = world
        self.dice: Final = random.Random(seed)
        self.began: Final = asyncio.get_running_loop().time()
        self.done: Final[Counter[str]] = Counter()
        self.broken: Final[list[str]] = []
        self._replicas: list[Replica] = []
        self._plans: Final[list[FaultPlan]] = []
        self._number = 0
        self._acting: Final = asyncio.Lock()
        cluster = next(link for link in world.cluster.links if link.name == "cluster")
        cluster.plan = weather(f"cluster {seed}")
        self._plans.append(cluster.plan)

    @property
    def age(self) -> float:
        return asyncio.get_running_loop().time() - self.began

    def add_replica(self) -> None:
        self._number += 1
        replica = Replica(self.world, f"replica-{self._number}", self.dice, self.age)
        self._plans.extend(link.plan for link in replica.links)
        self._replicas.append(replica)
        replica.start()

    def struck(self) -> Counter[str]:
        return sum((plan.struck for plan in self._plans), self.done.copy())

    @asynccontextmanager
    async def raging(self) -> AsyncIterator[None]:
        for _ in range(2):
            self.add_replica()
        tasks = [asyncio.create_task(each) for each in (self._look(), self._replace(), self._rage())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for replica in self._replicas:
                await replica.stop()
            for task in tasks:
                if not task.cancelled():
                    task.result()

    async def _rage(self) -> None:
        """Now and then something big breaks."""
        while True:
            await asyncio.sleep(self.dice.uniform(15.0, 60.0))
            if self.age > TROUBLE - 60.0:
                return
            acts = (self._kill_leader, self._fail_node, self._lose_node, self._replace_object)
            act = self.dice.choice((*acts, self._take_name, self._edit_definition))
            async with self._acting:
                await act()

    async def _kill_leader(self) -> None:
        for replica in self._replicas:
            if replica.manager.is_leading:
                self.done["leader killed"] += 1
                await replica.kill()

    async def _nodes(self) -> list[Node]:
        nodes = (await self.world.cluster.client.list(Node)).items
        return [each for each in nodes if _OUT_OF_SERVICE not in {taint.key for taint in each.spec.taints}]

    async def _fail_node(self) -> None:
        nodes = await self._nodes()
        if nodes:
            self.done["node failed"] += 1
            name = self.dice.choice(nodes).metadata.name
            await self._mark(name, "true")
            await asyncio.sleep(self.dice.uniform(10.0, 90.0))
            if name in {each.metadata.name for each in await self._nodes()}:
                await self._mark(name, None)

    async def _mark(self, name: str, value: str | None) -> None:
        client = self.world.cluster.client
        with suppress(NotFound):
            node = await client.get(Node, name)
            await client.patch(node, MergePatch({"metadata": {"annotations": {FAILED: value}}}))

    async def _lose_node(self) -> None:
        nodes = await self._nodes()
        if nodes:
            self.done["node lost"] += 1
            with suppress(NotFound):
                await self.world.cluster.client.delete(self.dice.choice(nodes))

    async def _replace_object(self) -> None:
        if await replace_object(self.world.cluster.client, self.dice):
            self.done["object replaced"] += 1

    async def _take_name(self) -> None:
        seconds = self.dice.uniform(5.0, 40.0)
        told = await take_name(self.world.cluster.client, self.dice, seconds)
        if told is not None:
            self.done["name taken"] += 1
        if told:
            self.broken.append(f"{self.age:.0f}s: {told}")

    async def _edit_definition(self) -> None:
        self.done["definition edited"] += 1
        await edit_definition(self.world.cluster.client, self.dice, self.done["definition edited"])

    async def restore(self, backup: Path, *, after: float) -> None:
        """Make a backup, and go back to it some time later; meanwhile there is no other act of ours."""
        cluster = self.world.cluster
        async with self._acting:
            cluster.backup(backup)
            await asyncio.sleep(after)
            await cluster.restore(backup)
            self.done["server restored"] += 1

    async def _replace(self) -> None:
        """Processes that have ended start anew after a while."""
        while True:
            await asyncio.sleep(self.dice.uniform(2.0, 10.0))
            for replica in [each for each in self._replicas if each.is_over]:
                self._replicas.remove(replica)
                await replica.stop()
                self.add_replica()

    async def _look(self) -> None:
        """Look at what must hold at every moment."""
        always = [each for each in installed_invariants() if not each.at_rest]
        while True:
            await asyncio.sleep(LOOK)
            leaders = [each for each in self._replicas if each.may_write]
            if len(leaders) > 1:
                self.broken.append(f"{self.age:.0f}s: {len(leaders)} replicas lead")
            self.note(await find_broken(self.world.cluster.client, always, settle=0.0))

    def note(self, broken: list[Broken]) -> None:
        self.broken.extend(
            f"{self.age:.0f}s: {each.invariant}: {each.object} {each.problem}" for each in broken
        )


async def _tell(seed: int) -> Report:
    with TemporaryDirectory() as folder:
        if not RESTORED or seed % RESTORED:
            return await _tell_on(seed, None, Path(folder))
        # on the loop, not in a thread: nothing may depend on luck
        server = ServerOptions(data_dir=Path(folder, "data"), durability=Durability.NORMAL)
        return await _tell_on(seed, server, Path(folder, "backup"))


async def _tell_on(seed: int, server: ServerOptions | None, backup: Path) -> Report:
    report = Report(seed)
    async with concert(seed, server) as world:
        chaos, teller = Chaos(world, seed), Teller(world.kubectl, patience=PATIENCE)
        client = world.cluster.client
        async with chaos.raging():
            pause = TROUBLE / len(world.story.steps)
            restored = chaos.dice.randint(1, len(world.story.steps) - 1) if server is not None else 0
            for number, step in enumerate(world.story.steps, 1):
                # What should come of it may not, while more breaks than the story knows of.
                async for _ in teller.take(msgspec.structs.replace(step, until=())):
                    pass
                if number == restored:  # between two steps: nothing that somebody told the cluster is lost
                    await chaos.restore(backup, after=pause / 2)
                await asyncio.sleep(max(0.0, number * pause - chaos.age))
            await asyncio.sleep(max(0.0, TROUBLE + CALM - chaos.age))
            async for _ in teller.take(world.story.steps[-1]):
                pass  # what it waits for holds, or comes to hold again
            chaos.note(await find_broken(client, installed_invariants(), settle=SETTLE))
            chaos.note(await find_storage_faults(client))
            for job in await client.list(TrainJob):
                ended = [each.type for each in job.status.conditions if each.status == "True"]
                if "Failed" in ended:
                    chaos.broken.append(f"TrainJob {job.metadata.name} has failed")
            lease = await client.get(Lease, _LEASE.name, _LEASE.namespace)
            if not lease.spec.holder_identity:
                chaos.broken.append("nobody leads")
        report.struck = dict(chaos.struck())
        report.problem = "\n  ".join(dict.fromkeys(chaos.broken))
    return report


def rehearse() -> None:
    """Load all that is needed: forks of this process have it then."""

    async def build() -> None:
        async with concert() as world:
            for definition in await world.cluster.client.list(CustomResourceDefinition):
                await _compile(world.cluster.client, definition)

    run(build())


async def _compile(client: Client, definition: CustomResourceDefinition) -> None:
    """Let the server look at one object of a kind: schemas are compiled by the first one."""
    spec = definition.spec
    for version in spec.versions:
        document = {
            "apiVersion": f"{spec.group}/{version.name}",
            "kind": spec.names.kind,
            "metadata": {"name": "rehearsal", "namespace": "default" if spec.scope == "Namespaced" else ""},
        }
        with suppress(ApiError):  # most kinds do not take an object that says nothing
            await client.create(DynamicObject.from_dict(document), dry_run=True)


def tell(seed: int) -> Report:
    """Tell the story with the faults of a seed."""
    try:
        return run(_tell(seed), work_limit=WORK_LIMIT)
    except Exception as error:  # noqa: BLE001  whatever it is, it is what the seed has found
        return Report(seed, "".join(traceback.format_exception(error)[-3:]))
