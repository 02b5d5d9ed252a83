"""An update ends whatever happens in it.

Worlds of a few pods, of a few replicas of a group, or of a set, in which everything happens in any order that
Hypothesis thinks of: scaling, other templates, pods that fail, go, or take their time to go, controllers that
are killed between two writes. From some moment on the world is left in peace and all that is made comes up:
then every update must end, with nothing old left.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove.logic import cliqueupdate, groupupdate, setupdate
from quarterdeck.operators.grove.logic.groupstate import GroupReplica, group_replicas
from quarterdeck.operators.grove.logic.podchoice import choose_doomed
from quarterdeck.operators.grove.logic.podstate import is_ready, template_hash
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroupStatus, SetUpdate

from .grovekit import NOW, member, pcsg, pod

TEMPLATES = ["t0", "t1", "t2"]
OPS = st.sampled_from(
    ["reconcile", "reconcile", "killed", "scale", "template", "fail", "delete", "gone", "ready", "report"]
)


class CliqueWorld:
    """The pods of a PodClique, and a controller that does with them what ours does."""

    def __init__(self, replicas: int, least: int) -> None:
        self.replicas, self.least, self.template = replicas, least, "t0"
        self.progress: Any = cliqueupdate.noted_update("", "", NOW)
        self.pods: dict[str, Pod] = {}
        self.made = 0
        self.reconcile()
        self.rest()

    def put(self, name: str, state: str, *, hash: str = "", is_deleting: bool = False) -> None:
        created = f"2030-01-01T00:{self.made // 60 % 60:02}:{self.made % 60:02}Z"
        known = self.pods.get(name)
        stamp = str(known.metadata.creation_timestamp) if known is not None else created
        self.pods[name] = pod(
            name, state, hash=hash or template_hash(self.pods[name]), is_deleting=is_deleting, created=stamp
        )

    @property
    def alive(self) -> list[Pod]:
        return [each for each in self.pods.values() if not each.metadata.is_deleting]

    def delete(self, doomed: list[Pod]) -> None:
        for each in doomed:
            self.put(each.metadata.name, "ready" if is_ready(each) else "crashed", is_deleting=True)

    def reconcile(self, *, is_killed: bool = False) -> None:
        if cliqueupdate.is_due(self.progress, list(self.pods.values()), self.template, self.template):
            self.progress = cliqueupdate.begin_update(self.template, self.template, NOW)
        excess = len(self.alive) - self.replicas
        if excess > 0:
            self.delete(choose_doomed(self.alive, excess, expected_hash=self.template, doomed=()))
        if cliqueupdate.is_updating(self.progress):
            self.update(is_killed=is_killed)
        for _ in range(-excess):
            self.made += 1
            self.put(f"p{self.made}", "starting", hash=self.template)

    def update(self, *, is_killed: bool) -> None:
        pods, enough = list(self.pods.values()), min(self.least, self.replicas)
        taken = cliqueupdate.next_step(self.progress, pods, replicas=self.replicas, least=self.least, now=NOW)
        working = [each for each in taken.doomed if is_ready(each)]
        assert len(working) <= 1, "one at a time"
        assert not working or sum(map(is_ready, self.alive)) >= enough, "too few are left"
        self.progress = taken.progress
        if not is_killed:
            self.delete(list(taken.doomed))

    def happen(self, op: str, data: Any) -> None:
        names = sorted(self.pods)
        if op in ("reconcile", "killed"):
            self.reconcile(is_killed=op == "killed")
        elif op == "scale":
            self.replicas = data.draw(st.integers(0, 5))
        elif op == "template":
            self.template = data.draw(st.sampled_from(TEMPLATES))
        elif op == "report" or not names:
            return
        else:
            name = data.draw(st.sampled_from(names))
            is_deleting = self.pods[name].metadata.is_deleting
            if op == "gone":
                del self.pods[name]
            else:
                state = {"fail": "crashed", "ready": "ready", "delete": "ready"}[op]
                self.put(name, state, is_deleting=is_deleting or op == "delete")

    def rest(self) -> None:
        """Time passes: what goes is gone, what was made works."""
        self.pods = {name: each for name, each in self.pods.items() if not each.metadata.is_deleting}
        for name in self.pods:
            self.put(name, "ready")


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.lists(OPS, max_size=40), st.data())
def test_the_update_of_a_clique_ends(replicas: int, least: int, ops: list[str], data: Any) -> None:
    world = CliqueWorld(replicas, least)
    world.template = "t1"
    for op in ops:
        world.happen(op, data)
    for _ in range(40):
        world.reconcile()
        world.rest()
    assert not cliqueupdate.is_updating(world.progress)
    assert {template_hash(each) for each in world.alive} <= {world.template}
    assert len(world.alive) == world.replicas


class GroupWorld:
    """The replicas of a scaling group."""

    def __init__(self, replicas: int, least: int) -> None:
        self.replicas, self.least, self.template = replicas, least, "t0"
        self.status: PodCliqueScalingGroupStatus = pcsg().status
        self.members: dict[int, PodClique] = {}
        self.reconcile()
        self.rest()

    def put(self, index: int, hash: str, *, is_working: bool, is_deleting: bool = False) -> None:
        count = 1 if is_working else 0
        self.members[index] = member(
            "w-0-sg",
            index,
            "c",
            hash=hash,
            is_deleting=is_deleting,
            scheduled_replicas=count,
            ready_replicas=count,
        )

    def hash(self, index: int) -> str:
        return self.members[index].metadata.labels["grove.io/pod-template-hash"]

    @property
    def seen(self) -> list[GroupReplica]:
        return group_replicas(self.members.values(), count=self.replicas, clique_names=["c"])

    def report(self) -> None:
        """The group says of which hash it is, once all of it is."""
        if all(each.is_complete and not each.is_old({"c": self.template}) for each in self.seen):
            self.status = self.status.evolve(current_pod_clique_set_generation_hash=self.template)

    def delete(self, indices: Any) -> None:
        for index in indices:
            if index in self.members:
                self.put(index, self.hash(index), is_working=False, is_deleting=True)

    def reconcile(self, *, is_killed: bool = False) -> None:
        hashes = {"c": self.template}
        if groupupdate.is_due(self.status, self.seen, hashes, self.template):
            self.status = self.status.evolve(update_progress=groupupdate.begin_update(self.template, NOW))
        self.delete([index for index in self.members if index >= self.replicas])
        missing = [index for index in range(self.replicas) if index not in self.members]
        before = self.seen
        for index in missing:
            self.put(index, self.template, is_working=False)
        progress = self.status.update_progress
        if progress and groupupdate.is_updating(progress):
            taken = groupupdate.next_step(progress, before, hashes, least=self.least, now=NOW)
            working = [each.index for each in before if each.index in taken.doomed and each.is_working]
            assert len(working) <= 1, "one at a time"
            enough = min(self.least, self.replicas)
            assert not working or sum(each.is_working for each in before) >= enough, "too few are left"
            self.status = self.status.evolve(update_progress=taken.progress)
            if not is_killed:
                self.delete(taken.doomed)

    def happen(self, op: str, data: Any) -> None:
        if op in ("reconcile", "killed"):
            self.reconcile(is_killed=op == "killed")
        elif op == "scale":
            self.replicas = data.draw(st.integers(0, 4))
        elif op == "template":
            self.template = data.draw(st.sampled_from(TEMPLATES))
        elif op == "report":
            self.report()
        elif self.members:
            index = data.draw(st.sampled_from(sorted(self.members)))
            is_deleting = self.members[index].metadata.is_deleting
            if op == "gone":
                del self.members[index]
            elif op == "delete":
                self.delete([index])
            elif not is_deleting:
                self.put(index, self.hash(index), is_working=op == "ready")

    def rest(self) -> None:
        self.members = {index: each for index, each in self.members.items() if not each.metadata.is_deleting}
        for index in self.members:
            self.put(index, self.hash(index), is_working=True)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.lists(OPS, max_size=40), st.data())
def test_the_update_of_a_group_ends(replicas: int, least: int, ops: list[str], data: Any) -> None:
    world = GroupWorld(replicas, least)
    world.template = "t1"
    for op in ops:
        world.happen(op, data)
    for _ in range(40):
        world.reconcile()
        world.rest()
        world.report()
    assert not groupupdate.is_updating(world.status.update_progress)
    assert {world.hash(index) for index in world.members} <= {world.template}
    assert sorted(world.members) == list(range(world.replicas))
    assert world.status.current_pod_clique_set_generation_hash == world.template


class SetWorld:
    """The replicas of a set: their templates, whether they work, and whether they are to be terminated."""

    def __init__(self, replicas: int) -> None:
        self.replicas, self.template = replicas, "t1"
        self.progress = SetUpdate(update_started_at=NOW)
        self.templates = ["t0"] * replicas
        self.works = [True] * replicas
        self.doomed = [False] * replicas

    def reconcile(self) -> None:
        while len(self.templates) < self.replicas:
            self.templates.append(self.template)
            self.works.append(False)
            self.doomed.append(False)
        del self.templates[self.replicas :], self.works[self.replicas :], self.doomed[self.replicas :]
        if setupdate.is_updating(self.progress):
            states = [
                setupdate.ReplicaState(
                    index=index,
                    is_done=self.templates[index] == self.template and self.works[index],
                    scheduled_pods=int(self.works[index]),
                    is_doomed=self.doomed[index],
                )
                for index in range(self.replicas)
            ]
            self.progress = setupdate.next_progress(self.progress, states, NOW)
            assert len(self.progress.currently_updating) <= 1

    def happen(self, op: str, data: Any) -> None:
        if op in ("reconcile", "killed"):
            self.reconcile()
        elif op == "scale":
            self.replicas = data.draw(st.integers(0, 4))
        elif op == "template":
            template = data.draw(st.sampled_from(TEMPLATES))
            if template != self.template:
                self.template, self.progress = template, SetUpdate(update_started_at=NOW)
        elif op == "report":
            self.replace_current()
        elif self.templates:
            index = data.draw(st.integers(0, len(self.templates) - 1))
            self.works[index] = op == "ready"
            self.doomed[index] = op == "delete"

    def replace_current(self) -> None:
        for each in self.progress.currently_updating:
            if (
                each.replica_index < len(self.templates)
                and self.templates[each.replica_index] != self.template
            ):
                self.templates[each.replica_index] = self.template
                self.works[each.replica_index] = False

    def rest(self) -> None:
        self.replace_current()
        for index, is_doomed in enumerate(self.doomed):
            if is_doomed:  # what is terminated comes back from the present template
                self.templates[index] = self.template
            self.works[index], self.doomed[index] = True, False


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.lists(OPS, max_size=40), st.data())
def test_the_update_of_a_set_ends(replicas: int, ops: list[str], data: Any) -> None:
    world = SetWorld(replicas)
    for op in ops:
        world.happen(op, data)
    for _ in range(20):
        world.reconcile()
        world.rest()
    assert not setupdate.is_updating(world.progress)
    assert world.templates == [world.template] * world.replicas


def test_an_update_that_has_ended_begins_again_for_pods_made_while_another_template_was_wanted() -> None:
    """A, B, A, B: the pods of the second A came after the update to B had ended."""
    ended = cliqueupdate.noted_update("g", "b", NOW)
    assert not cliqueupdate.is_due(ended, [pod("p", hash="b")], "g", "b")
    assert not cliqueupdate.is_due(ended, [pod("p", hash="a", is_deleting=True)], "g", "b")
    assert cliqueupdate.is_due(ended, [pod("p", hash="a")], "g", "b")
    assert not cliqueupdate.is_due(cliqueupdate.begin_update("g", "b", NOW), [pod("p", hash="a")], "g", "b")
    assert cliqueupdate.is_due(cliqueupdate.begin_update("g", "c", NOW), [pod("p", hash="b")], "g", "b")
