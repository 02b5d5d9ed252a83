"""What is left of a node, and shared GPUs."""

import random
from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.scheduler import Action
from quarterdeck.scheduler.decision import Bind
from quarterdeck.scheduler.model.hold import Hold
from quarterdeck.scheduler.model.node import NodeState
from quarterdeck.scheduler.model.sharing import SharedGpus
from quarterdeck.scheduler.model.task import Shape
from quarterdeck.scheduler.resource import NOTHING, Resources
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, NodeInfo, PodConstraints
from tests.unit.scheduler.schedulerscene import ALLOCATE, NOW, NS, Scene, gpu_node, only

NIC = "example.com/nic"
FREE = PodConstraints()
HALF = GpuShare(0.5)


def node(gpu: float = 4, **fields: Any) -> NodeState:
    return NodeState(NodeInfo(name="n", allocatable=Resources(8000, 8 << 30, gpu, ((NIC, 2),)), **fields), 0)


def shape(gpu: float = 0, cpu: int = 1000, share: GpuShare | None = None, nics: int = 0) -> Shape:
    scalars = ((NIC, nics),) if nics else ()
    return Shape(Resources(cpu, 1 << 30, gpu, scalars), share, FREE)


class TestAccounts:
    def test_a_running_pod_takes_from_both(self) -> None:
        state = node()
        state.hold(shape(1, nics=1), (), Hold.RUNNING, 1)
        for account in (state.idle, state.free):
            assert (account.cpu, account.memory, account.gpu, account.pods) == (7000, 7 << 30, 3, 109)
            assert account.scalars == {NIC: 1}

    def test_a_terminating_pod_takes_only_what_is_idle(self) -> None:
        state = node()
        state.hold(shape(4), (), Hold.LEAVING, 1)
        assert (state.idle.gpu, state.free.gpu, state.leaving) == (0, 4, 1)
        assert state.fits_eventually(shape(4))
        assert not state.fits_now(shape(4))

    def test_a_promised_pod_takes_only_what_will_be_free(self) -> None:
        state = node()
        state.hold(shape(4), (), Hold.COMING, 1)
        assert (state.idle.gpu, state.free.gpu) == (4, 0)
        assert not state.fits_eventually(shape(1))

    def test_a_promise_that_needs_idle_room_keeps_others_from_it(self) -> None:
        state = node()
        state.hold(shape(2), (), Hold.LEAVING, 1)
        state.hold(shape(4), (), Hold.COMING, 1)
        assert state.fits_now(shape(1))
        assert not state.fits_eventually(shape(1))

    def test_to_terminate_is_to_run_no_more(self) -> None:
        state, other = node(), node()
        for each in (state, other):
            each.hold(shape(2), (), Hold.RUNNING, 1)
        state.let_go(shape(2), 1)
        other.hold(shape(2), (), Hold.RUNNING, -1)
        other.hold(shape(2), (), Hold.LEAVING, 1)
        for left, right in ((state.idle, other.idle), (state.free, other.free)):
            assert (left.cpu, left.memory, left.gpu, left.pods) == (
                right.cpu,
                right.memory,
                right.gpu,
                right.pods,
            )
        assert state.leaving == other.leaving == 1

    @pytest.mark.parametrize("seed", range(20))
    def test_whatever_is_taken_comes_back(self, seed: int) -> None:
        chance = random.Random(seed)
        state = node(gpu=8)
        held: list[tuple[Shape, tuple[str, ...], Hold]] = []
        for _ in range(50):
            if held and chance.random() < 0.5:
                state.hold(*held.pop(chance.randrange(len(held))), -1)
                continue
            share = (
                GpuShare(chance.choice([0.3, 0.5]), 0, chance.choice([1, 2]))
                if chance.random() < 0.5
                else None
            )
            groups = tuple(f"g{chance.randint(0, 3)}" for _ in range(share.devices)) if share else ()
            each = (
                shape(0 if share else 1, share=share, nics=chance.randint(0, 1)),
                groups,
                chance.choice([*Hold]),
            )
            state.hold(*each, 1)
            held.append(each)
        for each in held:
            state.hold(*each, -1)
        for account in (state.idle, state.free):
            assert (account.cpu, account.memory, account.gpu, account.pods) == (8000, 8 << 30, 8, 110)
            assert account.scalars == {NIC: 2}
        assert state.leaving == 0
        assert state.spare_gpus() == 8

    @pytest.mark.parametrize(
        ("pod", "copies"),
        [
            (shape(1), 4),
            (shape(3), 1),
            (shape(0, cpu=3000), 2),
            (shape(0, nics=1), 2),
            (shape(5), 0),
            (shape(share=HALF), 4),
            (shape(share=GpuShare(0.5, 0, 3)), 1),
            (Shape(NOTHING, None, FREE), 110),
        ],
    )
    def test_copies_that_fit_side_by_side(self, pod: Shape, copies: int) -> None:
        assert node().copies(pod) == copies

    def test_ports_are_counted(self) -> None:
        state, port = node(), HostPort(80)
        pod = Shape(NOTHING, None, PodConstraints(host_ports=(port,)))
        state.hold(pod, (), Hold.LEAVING, 1)
        state.hold(pod, (), Hold.COMING, 1)
        assert (state.ports[port], state.promised_ports[port]) == (1, 1)


class TestSharedDevices:
    def test_the_first_pod_of_a_group_takes_a_device(self) -> None:
        gpus = SharedGpus(0)
        assert gpus.hold(HALF, ("a",), Hold.RUNNING, 1) == (1, 1)
        assert gpus.hold(HALF, ("a",), Hold.RUNNING, 1) == (0, 0)
        assert gpus.fitting(HALF) == []

    def test_the_last_pod_gives_it_back(self) -> None:
        gpus = SharedGpus(0)
        gpus.hold(HALF, ("a",), Hold.RUNNING, 1)
        gpus.hold(HALF, ("a",), Hold.RUNNING, 1)
        assert gpus.hold(HALF, ("a",), Hold.RUNNING, -1) == (0, 0)
        assert gpus.hold(HALF, ("a",), Hold.RUNNING, -1) == (-1, -1)

    def test_the_fullest_group_with_room_comes_first_then_by_name(self) -> None:
        gpus = SharedGpus(0)
        for name, portion in (("a", 0.2), ("b", 0.6), ("c", 0.4), ("d", 0.4), ("e", 0.8)):
            gpus.hold(GpuShare(portion), (name,), Hold.RUNNING, 1)
        assert gpus.fitting(GpuShare(0.4)) == ["b", "c", "d", "a"]

    def test_room_of_terminating_pods_is_not_there_yet(self) -> None:
        gpus = SharedGpus(0)
        gpus.hold(HALF, ("a",), Hold.RUNNING, 1)
        gpus.hold(HALF, ("a",), Hold.LEAVING, 1)
        assert gpus.fitting(HALF) == ["a"]
        assert not gpus.has_room_now(HALF, "a")

    def test_a_group_that_everyone_leaves_is_no_group_any_more(self) -> None:
        gpus = SharedGpus(0)
        assert gpus.hold(HALF, ("a",), Hold.LEAVING, 1) == (1, 0)
        assert gpus.fitting(HALF) == []
        assert gpus.fitting(HALF, own=("a",)) == ["a"]

    def test_memory_is_measured_against_the_device(self) -> None:
        gpus = SharedGpus(40_000)
        assert gpus.units(GpuShare(memory=10_000)) == 10_000
        assert gpus.units(HALF) == 20_000
        assert gpus.portion(GpuShare(memory=10_000)) == 0.25
        assert gpus.portion(GpuShare(memory=10_001)) == 0.26
        assert gpus.portion(HALF) == 0.5

    def test_three_thirds_fit(self) -> None:
        gpus = SharedGpus(0)
        for _ in range(2):
            gpus.hold(GpuShare(0.33), ("a",), Hold.RUNNING, 1)
        assert gpus.fitting(GpuShare(0.33)) == ["a"]
        gpus.hold(GpuShare(0.33), ("a",), Hold.RUNNING, 1)
        assert gpus.fitting(GpuShare(0.33)) == []


def shared(scene: Scene, group: str, portion: float = 0.0, node: str = "", **more: Any) -> Scene:
    share = GpuShare(portion, more.pop("mib", 0), more.pop("devices", 1))
    return scene.pod(group, node, gpu_share=share, **more)


def bind_of(scene: Scene, pod: str = "a-0") -> Bind:
    (found,) = [each for each in scene.run(ALLOCATE).of(Bind) if each.pod == Key(NS, pod)]
    assert isinstance(found, Bind)
    return found


class TestFractions:
    def test_two_halves_share_a_device(self) -> None:
        scene = gpu_node(1).group("a", least=2)
        outcome = shared(shared(scene, "a", 0.5), "a", 0.5).run(ALLOCATE)
        assert outcome.states("a") == ["Allocated", "Allocated"]
        first, second = outcome.of(Bind)
        assert first.gpu_groups == second.gpu_groups
        assert len(first.gpu_groups) == 1

    def test_what_does_not_fit_a_device_needs_another(self) -> None:
        scene = gpu_node(1).group("a", least=2)
        assert set(shared(shared(scene, "a", 0.6), "a", 0.6).run(ALLOCATE).states("a")) == {"Pending"}

    def test_the_bind_says_what_was_given(self) -> None:
        found = bind_of(shared(gpu_node(1).group("a"), "a", 0.25))
        assert (found.gpu_count, found.gpu_portion, found.is_fraction) == (1, 0.25, True)

    def test_whole_devices_are_no_fraction(self) -> None:
        found = bind_of(gpu_node(2).job("a", waiting=1, gpu=2))
        assert (found.gpu_count, found.gpu_portion, found.is_fraction, found.gpu_groups) == (
            2,
            1.0,
            False,
            (),
        )

    def test_parts_of_several_devices(self) -> None:
        found = bind_of(shared(gpu_node(3).group("a"), "a", 0.5, devices=2))
        assert (found.gpu_count, found.gpu_portion, len(set(found.gpu_groups))) == (2, 0.5, 2)

    def test_more_devices_than_there_are(self) -> None:
        scene = shared(gpu_node(1).group("a"), "a", 0.5, devices=2)
        assert "1 node(s) didn't have enough resources: GPUs" in scene.run(ALLOCATE).message("a")

    def test_the_fullest_device_is_shared_first(self) -> None:
        scene = gpu_node(4).group("x")
        shared(scene, "x", 0.2, "n0", gpu_groups=("one",))
        shared(scene, "x", 0.6, "n0", gpu_groups=("two",))
        assert bind_of(shared(scene.group("a"), "a", 0.4)).gpu_groups == ("two",)

    def test_a_node_with_a_shared_device_is_preferred(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 8).queue("q").group("x")
        shared(scene, "x", 0.5, "n1", gpu_groups=("g",))
        assert bind_of(shared(scene.group("a"), "a", 0.5)).node == "n1"

    def test_whole_gpus_do_not_come_out_of_shared_devices(self) -> None:
        scene = gpu_node(1).group("x")
        shared(scene, "x", 0.1, "n0", gpu_groups=("g",))
        assert scene.job("a", waiting=1, gpu=1).run(ALLOCATE)["a-0"] == ("Pending", "")

    def test_room_of_a_terminating_pod_is_promised(self) -> None:
        scene = gpu_node(1).group("x")
        shared(scene, "x", 0.5, "n0", gpu_groups=("g",))
        shared(scene, "x", 0.5, "n0", gpu_groups=("g",), is_deleted=True)
        assert shared(scene.group("a"), "a", 0.5).run(ALLOCATE)["a-0"] == ("Pipelined", "n0")

    def test_a_device_that_everyone_leaves_is_promised_as_a_whole(self) -> None:
        scene = gpu_node(1).group("x")
        shared(scene, "x", 0.5, "n0", gpu_groups=("g",), is_deleted=True)
        assert scene.job("a", waiting=1, gpu=1).run(ALLOCATE)["a-0"] == ("Pipelined", "n0")

    def test_a_pod_whose_device_is_not_named_has_one_for_itself(self) -> None:
        scene = shared(gpu_node(1).group("x"), "x", 0.1, "n0")
        assert shared(scene.group("a"), "a", 0.1).run(ALLOCATE)["a-0"][0] == "Allocated"
        assert scene.job("b", waiting=1, gpu=1).run(ALLOCATE)["b-0"] == ("Pending", "")

    def test_quota_counts_the_fraction(self) -> None:
        scene = Scene().node("n0", 4).queue("q", gpu=(1, 1, 1)).group("a", least=2)
        assert set(shared(shared(scene, "a", 0.5), "a", 0.5).run(ALLOCATE).states("a")) == {"Allocated"}
        outcome = shared(scene, "a", 0.5).run(ALLOCATE)
        assert outcome["a-2"] == ("Pending", "")
        assert outcome.result.queues["q"].allocated.gpu == 1
        assert (
            "Limit is 1 GPUs, currently 1 GPUs allocated and workload requested 0.5 GPUs"
            in outcome.message("a")
        )

    def test_fractions_are_evicted_for_fractions(self) -> None:
        scene = Scene().node("n0", 1).queue("q")
        shared(scene.group("low"), "low", 0.5, "n0", gpu_groups=("g",))
        shared(scene.group("other", priority=100), "other", 0.5, "n0", gpu_groups=("g",))
        outcome = shared(scene.group("a", priority=75), "a", 0.5).run(only(Action.PREEMPT))
        assert outcome.evicted() == ["low-0"]
        assert outcome["a-0"] == ("Pipelined", "n0")

    def test_a_whole_gpu_takes_all_pods_of_a_device(self) -> None:
        scene = Scene().node("n0", 1).queue("q")
        for name in ("x", "y"):
            shared(scene.group(name), name, 0.5, "n0", gpu_groups=("g",))
        outcome = scene.job("a", waiting=1, gpu=1, priority=75).run(only(Action.PREEMPT))
        assert outcome.evicted() == ["x-0", "y-0"]

    def test_consolidation_moves_parts_of_devices(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 1).queue("q")
        for index in range(2):
            shared(scene.group(f"x{index}"), f"x{index}", 0.5, f"n{index}", gpu_groups=(f"g{index}",))
        outcome = scene.job("a", waiting=1, gpu=1).run(only(Action.CONSOLIDATION))
        assert len(outcome.evicted()) == 1
        moved = outcome.evicted()[0]
        assert outcome[moved][0] == "Pipelined"
        assert outcome["a-0"][0] == "Pipelined"
        assert outcome["a-0"][1] != outcome[moved][1]


class TestGpuMemory:
    def test_memory_fits_beside_memory(self) -> None:
        scene = Scene().node("n0", 1, gpu_memory=40_000).queue("q").group("a", least=2)
        shared(shared(scene, "a", mib=15_000), "a", mib=25_000)
        assert set(scene.run(ALLOCATE).states("a")) == {"Allocated"}

    def test_memory_and_portions_share_a_device(self) -> None:
        scene = Scene().node("n0", 1, gpu_memory=40_000).queue("q").group("a", least=2)
        shared(shared(scene, "a", mib=20_100), "a", 0.5)
        assert set(scene.run(ALLOCATE).states("a")) == {"Pending"}

    def test_a_device_that_is_too_small_is_told(self) -> None:
        scene = Scene().node("n0", 1, gpu_memory=40_000).queue("q").group("a")
        message = shared(scene, "a", mib=50_000).run(ALLOCATE).message("a")
        assert "1 node(s) didn't have enough resources: GPU memory" in message

    def test_devices_of_unknown_size_take_no_requests_by_memory(self) -> None:
        scene = gpu_node(1).group("a")
        assert shared(scene, "a", mib=10).run(ALLOCATE)["a-0"] == ("Pending", "")

    def test_the_portion_given_is_rounded_up(self) -> None:
        scene = Scene().node("n0", 1, gpu_memory=40_000).queue("q").group("a")
        assert bind_of(shared(scene, "a", mib=10_001)).gpu_portion == 0.26

    def test_quota_is_checked_with_the_device_that_it_would_get(self) -> None:
        scene = Scene().node("n0", 1, gpu_memory=10_000).node("n1", 1, gpu_memory=40_000)
        scene.queue("q", gpu=(0.5, 0.5, 1)).group("a")
        outcome = shared(scene, "a", mib=10_000).run(ALLOCATE)
        assert outcome["a-0"] == ("Pending", "")
        assert "workload requested 1 GPUs" in outcome.message("a")


class TestDevicesOfANode:
    """Two devices: one that pods share, of which some leave, and one that is free."""

    def state(self, gpu: float = 2, *holds: tuple[str, float, Hold]) -> NodeState:
        state = node(gpu)
        for group, portion, hold in holds:
            state.hold(shape(share=GpuShare(portion)), (group,), hold, 1)
        return state

    def test_shared_devices_first_or_new_ones_first(self) -> None:
        state = self.state(4, ("a", 0.2, Hold.RUNNING), ("b", 0.4, Hold.RUNNING))
        wanted = shape(share=GpuShare(0.5, 0, 3))
        assert state.devices_for(wanted) == (("b", "a"), 1, True)
        assert state.devices_for(wanted, spreads=True) == (("a",), 2, True)
        assert state.devices_for(shape(share=GpuShare(0.5, 0, 5))) is None
        assert state.devices_for(shape(share=GpuShare(0.5, 0, 4))) == (("b", "a"), 2, True)

    def test_the_fullest_device_is_taken_though_somebody_has_to_leave_it_first(self) -> None:
        state = self.state(2, ("a", 0.5, Hold.RUNNING), ("a", 0.5, Hold.LEAVING))
        assert state.fits_now(shape(share=HALF))
        assert state.devices_for(shape(share=HALF)) == (("a",), 0, False)

    def test_a_device_that_is_promised_and_idle_can_be_had_now(self) -> None:
        state = self.state(1, ("a", 0.5, Hold.COMING))
        assert state.devices_for(shape(share=HALF)) == (("a",), 0, True)

    def test_a_device_that_its_last_pod_leaves_is_free_for_that_pod_as_it_was(self) -> None:
        state = self.state(1, ("a", 0.5, Hold.LEAVING))
        half = shape(share=HALF)
        assert state.devices_for(half) == ((), 1, False)
        assert state.devices_for(half, ("a",)) == (("a",), 0, True)
        assert state.takes_back(half, ("a",))
        state.hold(shape(gpu=1), (), Hold.COMING, 1)
        assert state.devices_for(half, ("a",)) is None
        assert not state.takes_back(half, ("a",))

    def test_a_pod_stays_on_devices_that_have_room(self) -> None:
        state = self.state(1, ("a", 0.5, Hold.RUNNING), ("a", 0.5, Hold.LEAVING))
        assert state.takes_back(shape(share=HALF), ("a",))
        state.hold(shape(share=GpuShare(0.3)), ("a",), Hold.COMING, 1)
        assert not state.takes_back(shape(share=HALF), ("a",))
        assert not state.takes_back(shape(share=GpuShare(0.1)), ("unknown",))

    @pytest.mark.parametrize(
        ("groups", "has"),
        [(("a",), True), (("b",), True), (("a", "b"), True), (("b", "c"), False), (("d",), False)],
    )
    def test_named_devices_at_once(self, groups: tuple[str, ...], has: bool) -> None:
        state = self.state(3, ("a", 0.5, Hold.RUNNING), ("d", 0.6, Hold.RUNNING))
        assert state.has_now(shape(share=HALF), groups) is has

    def test_whole_devices_at_once(self) -> None:
        state = node(2)
        assert state.has_now(shape(gpu=2), ())
        assert not state.has_now(shape(gpu=3), ())

    def test_copies_of_parts(self) -> None:
        state = self.state(3, ("a", 0.5, Hold.RUNNING))
        assert state.copies(shape(share=HALF)) == 3
        assert state.copies(shape(share=GpuShare(0.5, 0, 2))) == 1
        assert state.copies(shape(share=GpuShare(0.6, 0, 2))) == 1
        assert state.spare_gpus() == 2.5

    @pytest.mark.parametrize(
        ("taken", "is_sound"),
        [
            (Resources(8000, 8 << 30, 2), True),
            (Resources(8001, 0, 0), False),
            (Resources(0, (8 << 30) + 1, 0), False),
            (Resources(0, 0, 3), False),
        ],
    )
    def test_a_node_may_hold_more_than_it_has(self, taken: Resources, is_sound: bool) -> None:
        state = node(2, pods=1)
        state.hold(Shape(taken, None, FREE), (), Hold.RUNNING, 1)
        assert state.is_sound is is_sound

    def test_pod_slots_can_be_exceeded_as_well(self) -> None:
        state = node(2, pods=1)
        for _ in range(2):
            state.hold(Shape(NOTHING, None, FREE), (), Hold.RUNNING, 1)
        assert not state.is_sound
        assert state.copies(Shape(NOTHING, None, FREE)) == 0

    def test_what_a_queue_is_charged_for(self) -> None:
        state = node(2)
        assert state.charge(shape(2, share=GpuShare(0.5, 0, 3))) == (1000, 1 << 30, 3.5)
        instances = Resources(1000, 0, 1, (("nvidia.com/mig-2g.10gb", 2),))
        assert state.charge(Shape(instances, None, FREE, (), 3)) == (1000, 0, 8)


def test_instances_of_gpus_are_counted_and_told() -> None:
    scene = Scene().queue("q")
    instance = "nvidia.com/mig-2g.10gb"
    allocatable = Resources(8000, 8 << 30, 0, ((instance, 2),))
    scene.nodes.append(NodeInfo(name="n", allocatable=allocatable, mig_strategy="mixed"))
    cluster = scene.cluster()
    assert (cluster.nodes["n"].has_gpus, cluster.nodes["n"].other_gpus, cluster.total[2]) == (True, 4, 4)
    outcome = scene.group("a").pod("a", scalars=((instance, 1),)).pod("a").run(ALLOCATE)
    assert [(each.is_mig, each.gpu_count, each.is_fraction) for each in outcome.of(Bind)] == [
        (True, 0, False),
        (False, 0, False),
    ]
    assert outcome.result.queues["q"].allocated.gpu == 2


def test_the_snapshot_is_not_changed() -> None:
    scene = gpu_node(2).group("x").pod("x", "n0", gpu=1, is_deleted=True).job("a", waiting=2, gpu=1)
    before = scene.snapshot()
    scene.run()
    assert scene.snapshot() == before
    assert before.now == NOW
