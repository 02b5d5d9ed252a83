"""One run: a workload on a fresh cluster, with something going wrong; what came of it.

The run only acts and watches. What is right is an ``Expectation`` for each step, learned from undisturbed
runs; without one (these runs themselves) a step is over when nothing was written for a while.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject
from quarterdeck.apiserver.document import protobuf
from quarterdeck.client import MergePatch
from quarterdeck.client.call import WRITES
from quarterdeck.errors import AlreadyExists, ApiError, NotFound
from quarterdeck.testing.fault import FaultPlan, FaultRule, Latency, Refuse
from quarterdeck.testing.link import Exchange, Link
from quarterdeck.testing.stream import ALL_EVENTS
from quarterdeck.testing.torture import oracle, tampering
from quarterdeck.testing.torture.finding import Problem
from quarterdeck.testing.torture.perturbation import Perturbation, Seed, WritePoint
from quarterdeck.testing.torture.picture import NOISE, Difference, StoredObject, take_picture
from quarterdeck.testing.torture.reference import Outcome, Reference, Write
from quarterdeck.testing.torture.scene import LEASES, Scene, World
from quarterdeck.testing.torture.workload import Step, Workload, identity

Json = dict[str, Any]
_MOST_LIVES: Final = 6
_MOST_WRITES: Final = 400
"""Of one step, beyond fifty times as many as undisturbed, that are taken for endless."""
_MOMENT: Final = (0.002, 0.002)
_LIST_STREAM: Final = Refuse(422, reason="Invalid", message="not offered", parameter="sendInitialEvents")


class Run:
    """Plays a workload once."""

    def __init__(
        self, scene: Scene, workload: Workload, seed: Seed, reference: Reference | None = None
    ) -> None:
        """``reference`` is that of the same workload; ``seed.steps`` was applied to both."""
        self._scene: Final = scene
        self._pace: Final = scene.pace
        self._steps: Final = workload.steps
        self._seed: Final = seed
        self._reference: Final = reference
        self._outcome: Final = Outcome()
        self._counts: Final[Counter[tuple[str, str]]] = Counter()
        self._plan = FaultPlan(0, *self._rules())
        self._due: Final[list[Perturbation]] = []
        """What a write has set off and is not done yet."""
        self._revisions: Final[dict[str, int]] = {}
        """Of the server at rest after a step, at its beginning, and at each write."""
        self._strangers: Final[list[StoredObject]] = []
        self._step = -1
        self._last_write = 0.0
        self._lives = 0
        self._world: World
        self._link: Link

    async def play(self) -> Outcome:
        """Play it; the outcome has the problems in the order in which they were seen."""
        async with self._scene.world() as world:
            self._world = world
            self._outcome.baseline = world.baseline
            await self._prepare()
            await self._start()
            if self._reference is None:
                await self._calm()
                self._outcome.program = frozenset(each.key for each in self._outcome.writes)
            for place, step in enumerate(self._steps):
                self._step = place
                started = self._now
                await self._perform(place, step)
                if not await self._rest(place):
                    break
                self._outcome.seconds.append(self._now - started)
                if not await self._at_rest(place):
                    break
                self._outcome.states.append(world.objects())
                self._revisions[str(place)] = world.revision
                self._judge_status(place)
            self._outcome.log = world.subject.log
            if oracle.has_panicked(self._outcome.log):
                self._note(Problem("crash", self._step, oracle.last_words(self._outcome.log)))
        return self._outcome

    # What goes wrong by the plan, from the first request on.

    @property
    def _usual(self) -> list[FaultRule]:
        """On virtual time a request takes a moment, or a loop without end would stop the clock."""
        return [Latency(_MOMENT)] if self._scene.is_virtual else []

    def _rules(self) -> list[FaultRule]:
        rules = self._usual
        for each in self._seed.perturbations:
            if each.pattern not in ("refuse", "lose") or each.point is None:
                continue
            resource, _, subresource = each.point.resource.partition("/")
            rules.append(
                Refuse(
                    int(each.what),
                    message="the object has been modified" if each.what == "409" else "torture",
                    retry_after=1 if each.what == "429" else 0,
                    is_done=each.pattern == "lose",
                    verbs=frozenset({each.point.verb}),
                    resources=frozenset({resource}),
                    subresource=subresource,
                    nth=each.point.nth,
                )
            )
        if any(each.pattern == "stale" for each in self._seed.perturbations):
            rules.append(_LIST_STREAM)
        return rules

    def _wanted(self, *patterns: str, step: int | None = None) -> list[Perturbation]:
        return [
            each
            for each in self._seed.perturbations
            if each.pattern in patterns and (step is None or each.step == step)
        ]

    # The life of the operator.

    async def _start(self, past: int = 0) -> None:
        self._lives += 1
        self._link = self._world.link(self._plan)
        self._link.after_write = self._after_write
        if past:
            self._link.show_past(past)
        await self._world.subject.start(self._link)
        await self._wait_started()
        self._last_write = self._now

    async def _restart(self, past: int = 0) -> None:
        subject = self._world.subject
        subject.strike()
        await subject.reap()
        self._remember_watches()
        await self._free_leases()
        await self._start(past)

    async def _wait_started(self) -> None:
        """Wait until it watches something: on a busy machine a program takes its time to load."""
        deadline = self._now + self._pace.patience
        while not self._link.open_watches() and self._now < deadline:
            await asyncio.sleep(self._pace.look)
            if self._world.subject.has_ended or self._due:
                return

    async def _free_leases(self) -> None:
        """The next life need not wait for the lease of one that is dead for sure."""
        for each in self._world.locks():
            await self._delete(each.document)

    def _remember_watches(self) -> None:
        self._outcome.watched |= {
            each.target.resource for each in self._link.log if each.verb == "watch" and each.status == 200
        } - NOISE

    async def _after_write(self, exchange: Exchange) -> None:
        target = exchange.target
        if target.resource in NOISE or not target.resource:
            return
        written = target.name or _name_in(exchange.body)
        if target.resource == "configmaps" and self._world.is_lock(target.namespace, written):
            return
        name = f"{target.resource}/{target.subresource}" if target.subresource else target.resource
        self._counts[target.verb, name] += 1
        point = WritePoint(target.verb, name, self._counts[target.verb, name])
        key = f"{target.resource} {target.namespace}/{written}"
        self._outcome.writes.append(Write(self._step, point, key, exchange.status))
        self._last_write = self._now
        self._revisions[str(point)] = self._world.revision
        for each in self._wanted("kill", "cut"):
            if each.point == point:
                if each.pattern == "kill":
                    self._world.subject.strike()
                self._due.append(each)

    async def _do_due(self) -> None:
        while self._due:
            each = self._due.pop(0)
            if each.pattern == "kill":
                await self._restart()
            else:
                self._forget_watches()

    def _forget_watches(self, resource: str = "") -> None:
        """End watches, and let the client find out that it cannot resume them."""
        count = self._link.open_watches(resource)
        some = frozenset({resource}) if resource else frozenset()
        if count:
            self._plan.add(Refuse(410, verbs=frozenset({"watch"}), resources=some, times=count))
        self._link.end_watches(resource)

    # Before the first step, at a step, after it.

    async def _prepare(self) -> None:
        if self._wanted("starve"):
            await self._set_schedulable(False)
        for each in self._wanted("occupy"):
            await self._occupy(each.what)

    async def _perform(self, place: int, step: Step) -> None:
        held = self._wanted("hold", "miss", step=place)
        for each in held:
            self._link.hold(each.what or ALL_EVENTS)
        pauses = self._wanted("pause", step=place)
        if pauses:
            self._world.subject.pause()
        blocks = self._wanted("block", step=place)
        for each in blocks:
            self._plan.add(Refuse(500, verbs=WRITES, resources=frozenset({each.what}), until=1e9))
        await self._do(step)
        self._revisions[f"{place}begin"] = self._world.revision
        if pauses:
            await asyncio.sleep(self._lease_seconds() + 2.0)
            self._world.subject.resume()
            self._last_write = self._now
        if held:
            await self._calm()
            for each in held:
                if each.pattern == "miss":
                    self._forget_watches(each.what)
                self._link.release(each.what or ALL_EVENTS)
        if blocks or (place == 0 and self._wanted("starve")):
            await self._calm()
            self._judge_claims(
                place, "pods wait for a node" if not blocks else f"{blocks[0].what} is refused"
            )
            self._lift()
            await self._set_schedulable(True)

    def _lift(self) -> None:
        """End what blocks; rules that struck at one point have done so."""
        self._plan = self._link.plan = FaultPlan(0, *self._usual)

    def _lease_seconds(self) -> float:
        durations = [
            each.document["spec"].get("leaseDurationSeconds", 0)
            for each in self._world.locks()
            if each.resource == LEASES
        ]
        return float(max((each for each in durations if each <= 60), default=3))

    async def _do(self, step: Step) -> None:
        client, document = self._world.client, step.object
        try:
            if step.verb == "create":
                await client.create(DynamicObject(document))
            elif step.verb == "edit":
                await client.patch(DynamicObject(document), MergePatch(step.patch))
            else:
                await self._delete(document)
        except ApiError as error:
            self._note(Problem("refusal", self._step, f"“{step.label}” was refused: {error}"))

    async def _delete(self, document: Mapping[str, Any]) -> None:
        with suppress(NotFound):
            await self._world.client.delete(DynamicObject(identity(document)), propagation="Background")

    async def _at_rest(self, place: int) -> bool:
        """Do what is to be done when a step has come to rest; whether the run goes on."""
        for each in self._seed.perturbations:
            if each.step != place or each.pattern in ("hold", "miss", "pause", "block"):
                continue
            if each.pattern == "stale":
                await self._restart(self._revisions.get(each.what, 0))
                await self._calm()
                self._link.show_present()
            elif each.pattern == "recreate":
                await self._recreate(self._steps[place].object)
            elif each.pattern in ("delete-child", "edit-child"):
                await self._tamper(each)
            elif each.pattern == "neighbour":
                await self._add_neighbour()
            elif each.pattern in ("field", "invalid") and not await self._change(each, place):
                return False
            if not await self._rest(place):
                return False
        self._judge_strangers()
        self._judge_deletions(place)
        return True

    # Coming to rest.

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _differences(self, place: int) -> list[Difference]:
        reference = self._reference
        if reference is None or self._wanted("occupy"):
            return []
        expectation = reference.expectations[place]
        found = expectation.differences(
            take_picture(self._world.objects(), reference.own, self._world.baseline, reference.program)
        )
        if self._wanted("neighbour"):
            found = [each for each in found if each.key in reference.own]
        return found

    async def _rest(self, place: int) -> bool:
        """Wait until everything is at rest and as expected; whether the run can go on."""
        usual = self._reference.seconds[place] if self._reference is not None else 0.0
        has_goal = self._reference is not None and not self._wanted("occupy")
        quiet = self._pace.quiet if has_goal else self._pace.calm
        if self._reference is None:
            quiet = self._pace.learning
        deadline = self._now + 3 * usual + self._pace.patience
        first_write = len(self._outcome.writes)
        activity, since = (-1, 0), self._now
        checked, found = activity, self._differences(place)[:0]
        while True:
            await asyncio.sleep(self._pace.look)
            await self._do_due()
            if not await self._revive():
                return False
            if self._world.activity != activity:
                activity, since = self._world.activity, self._now
            is_quiet = self._now - max(since, self._last_write) >= quiet
            if is_quiet and checked != activity:
                found, checked = self._differences(place), activity
            if is_quiet and not found:
                self._remember_watches()
                return True
            if self._now >= deadline or self._is_endless(first_write):
                break
        self._remember_watches()
        self._judge_unrest(place, is_quiet=is_quiet, first_write=first_write)
        return False

    async def _calm(self) -> None:
        """Wait until nothing is written for a while, whatever the state is."""
        deadline = self._now + self._pace.patience / 2
        activity, since = (-1, 0), self._now
        while self._now < deadline:
            await asyncio.sleep(self._pace.look)
            await self._do_due()
            if not await self._revive():
                return
            if self._world.activity != activity:
                activity, since = self._world.activity, self._now
            if self._now - max(since, self._last_write) >= self._pace.calm:
                return

    async def _revive(self) -> bool:
        """Start it again if it has ended by itself, as a cluster does; whether that makes sense."""
        subject = self._world.subject
        if not subject.has_ended or self._due:
            return True
        await subject.reap()
        may_end = any(each.pattern in oracle.MAY_END for each in self._seed.perturbations)
        may_end = may_end or oracle.has_lost_lease(subject.log)
        if not may_end or oracle.has_panicked(subject.log) or self._lives >= _MOST_LIVES:
            self._outcome.log = subject.log
            self._note(Problem("crash", self._step, oracle.last_words(subject.log)))
            return False
        await asyncio.sleep(1.0)
        await self._restart()
        return True

    def _is_endless(self, first_write: int) -> bool:
        usual = sum(each.step == self._step for each in self._reference.writes) if self._reference else 0
        return len(self._outcome.writes) - first_write > 50 * usual + _MOST_WRITES

    # Judging what the state alone does not tell.

    def _note(self, problem: Problem) -> None:
        self._outcome.problems.append(problem)

    def _judge_unrest(self, place: int, *, is_quiet: bool, first_write: int) -> None:
        label, found = self._steps[place].label, self._differences(place)
        if not is_quiet or not found:
            recent = [str(each.point).rpartition(",")[0] for each in self._outcome.writes[first_write:]]
            if recent:
                self._note(oracle.endless(place, label, recent, found))
                return
        if found:
            self._note(oracle.wrong_state(place, label, found, is_delete=self._steps[place].verb == "delete"))

    def _judge_deletions(self, place: int) -> None:
        """What is deleted and made again looks as before, and what was in it is lost."""
        patterns = {each.pattern for each in self._seed.perturbations}
        if self._reference is None or not patterns <= oracle.KEEPS_OBJECTS:
            return
        usual = {each.key for each in self._reference.writes if each.step == place and each.is_deletion}
        more = {each.key for each in self._outcome.writes if each.step == place and each.is_deletion} - usual
        if more:
            self._note(oracle.destroyed(place, self._steps[place].label, sorted(more)))

    def _judge_status(self, place: int) -> None:
        kinds = {self._world.resource_of(each.object) for each in self._steps}
        for each in self._outcome.states[-1]:
            if each.resource in kinds and each.uid not in self._world.baseline:
                self._outcome.problems.extend(oracle.behind(place, each))

    def _judge_claims(self, place: int, reason: str) -> None:
        kinds = {self._world.resource_of(each.object) for each in self._steps}
        found = [each for each in self._differences(place) if each.key.split(" ")[0] not in kinds]
        for each in self._world.objects():
            if each.resource in kinds and each.uid not in self._world.baseline and found:
                claim = oracle.claim_of(each)
                if claim:
                    self._note(oracle.lie(place, each, claim, reason, found))

    # The patterns that act on objects.

    async def _set_schedulable(self, is_schedulable: bool) -> None:
        for each in self._world.objects():
            if (
                each.resource == "nodes"
                and each.document["spec"].get("unschedulable", False) is is_schedulable
            ):
                patch = MergePatch({"spec": {"unschedulable": not is_schedulable}})
                await self._world.client.patch(DynamicObject(each.document), patch)

    async def _recreate(self, which: Json) -> None:
        found = self._find(self._world.resource_of(which), which)
        if found is None:
            return
        subject, fresh = self._world.subject, tampering.fresh_copy(found.document)
        subject.pause()
        await self._delete(found.document)
        deadline = self._now + self._pace.patience
        while self._now < deadline:
            try:
                await self._world.client.create(DynamicObject(fresh))
                break
            except AlreadyExists:  # a finalizer keeps it: the operator must see this
                subject.resume()
                await asyncio.sleep(self._pace.look)
        self._forget_watches()
        subject.resume()
        self._last_write = self._now

    def _find(self, resource: str, document: Mapping[str, Any]) -> StoredObject | None:
        metadata = document["metadata"]
        wanted = (resource, metadata.get("namespace", ""), metadata["name"])
        return next((x for x in self._world.objects() if (x.resource, x.namespace, x.name) == wanted), None)

    async def _tamper(self, each: Perturbation) -> None:
        found = next((x for x in self._world.objects() if _slashed(x.key) == each.what), None)
        if found is None:
            return
        if each.pattern == "delete-child":
            await self._delete(found.document)
        else:
            patch = tampering.edit_of(found)
            if patch:
                await self._world.client.patch(DynamicObject(found.document), MergePatch(patch))
        self._last_write = self._now

    async def _occupy(self, what: str) -> None:
        assert self._reference is not None
        model = next(x for state in self._reference.states for x in state if _slashed(x.key) == what)
        owner = await self._world.client.create(DynamicObject(tampering.stranger(model.namespace)))
        document = tampering.foreign_copy(model.document, owner.metadata.uid)
        with suppress(ApiError):  # not everything can be copied: a Job's selector, say
            await self._world.client.create(DynamicObject(document))
        self._strangers.extend(x for x in self._world.objects() if _slashed(x.key) == what)

    def _judge_strangers(self) -> None:
        for each in self._strangers:
            found = next((x for x in self._world.objects() if x.key == each.key), None)
            self._outcome.problems.extend(oracle.touched(self._step, each, found))

    async def _add_neighbour(self) -> None:
        document = tampering.neighbour(self._steps[0].object)
        await self._world.client.create(DynamicObject(document))
        await self._calm()
        self._outcome.problems.extend(
            oracle.shared(self._step, self._steps[0].object, document, self._world.objects())
        )

    async def _change(self, each: Perturbation, place: int) -> bool:
        """Change a field and change it back; whether the run goes on."""
        change = self._scene.changes[each.what]
        which = DynamicObject(identity(self._steps[place].object))
        before = self._world.activity
        try:
            await self._world.client.patch(which, MergePatch(change.there))
        except ApiError as error:
            if not change.is_valid and error.code >= 500:
                self._note(Problem("refusal", place, f"{change.there} was answered with {error}"))
            return True  # what only a webhook knows, or a rule, is refused rightly
        if not change.is_valid and self._world.activity != before:
            self._note(Problem("refusal", place, f"{change.there} was accepted, which the schema forbids"))
        writes = len(self._outcome.writes)
        await self._calm()
        if self._world.subject.has_ended or self._outcome.problems:
            return False
        if self._now - self._last_write < self._pace.calm and len(self._outcome.writes) > writes:
            recent = [str(one.point).rpartition(",")[0] for one in self._outcome.writes[writes:]]
            self._note(oracle.endless(place, f"edit {change.there}", recent, []))
            return False
        await self._world.client.patch(which, MergePatch(change.back))
        return True


def _slashed(key: str) -> str:
    return key.replace(" ", "/")


def _name_in(body: bytes) -> str:
    """The name of a created object, by its body."""
    try:
        document = protobuf.decode(body) if body.startswith(b"k8s\0") else msgspec.json.decode(body)
    except (ValueError, msgspec.DecodeError):
        return ""
    metadata = document.get("metadata") or {}
    prefix = metadata.get("generateName")
    return str(metadata.get("name") or (f"{prefix}*" if prefix else ""))
