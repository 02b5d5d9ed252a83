"""Clusters of KAI-Scheduler's own tables, where they are easy to get wrong."""

from msgspec.structs import replace

from quarterdeck.scheduler import Action, PodState, Settings
from quarterdeck.scheduler.decision import Bind
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import GpuShare, QueueResource

from .schedulerscene import ALL, ALLOCATE, Scene, only
from .settling import after, changes, cycles

HALF = GpuShare(0.5)


def states(scene: Scene, settings: Settings = ALLOCATE) -> dict[str, PodState]:
    return {key.name: pod.state for key, pod in scene.run(settings).result.pods.items()}


def test_elastic_reclaim_9_a_department_at_its_limit_waits_for_the_victim() -> None:
    """The node has room, the department has not: five would run for a while."""
    scene = Scene().node("node0", 4, cpu=8)
    scene.queue("department", gpu=(0, -1, 0), cpu=QueueResource(-1, 4000, 1))
    for name in ("queue0", "queue1"):
        scene.queue(name, "department", gpu=(0, -1, 1), cpu=QueueResource(1000, -1, 1))
    scene.job("running", "queue0", "node0", "node0", "node0", least=1)
    scene.job("pending", "queue1", "node0", waiting=2, least=1)
    for settings in (only(Action.RECLAIM), ALL):
        found = states(scene, settings)
        assert found["running-2"] is PodState.RELEASING
        assert (found["pending-1"], found["pending-2"]) == (PodState.PIPELINED, PodState.PENDING)
    # While the victim terminates the promise is all there is; when it is gone the pod is bound.
    scene.pods[2] = replace(scene.pods[2], is_deleted=True)
    assert states(scene, ALL)["pending-1"] is PodState.PIPELINED
    del scene.pods[2]
    assert states(scene, ALL)["pending-1"] is PodState.ALLOCATED


def test_fractional_allocation_11_no_new_gpu_while_a_shared_one_is_being_left() -> None:
    scene = Scene().node("node0", 2).queue("q", gpu=(2, -1, 0))
    scene.group("running", priority=100).pod("running", "node0", gpu_share=HALF, gpu_groups=("0",))
    scene.group("leaving", priority=100)
    scene.pod("leaving", "node0", gpu_share=HALF, gpu_groups=("0",), is_deleted=True)
    scene.group("pending", priority=100).pod("pending", gpu_share=HALF)
    assert states(scene)["pending-0"] is PodState.PIPELINED


def memory_scene(*pods: tuple[str, int, int, bool]) -> Scene:
    """A node with 2,000 bytes and a GPU of 100 MiB; pods with bytes, MiB, and whether they terminate."""
    scene = Scene().queue("q", gpu=(1, -1, 0)).node("node0", 1, gpu_memory=100)
    scene.nodes[0] = replace(scene.nodes[0], allocatable=Resources(20_000, 2000, 1))
    for name, size, share, is_leaving in pods:
        scene.group(name, priority=100)
        scene.pod(
            name,
            "" if name == "pending" else "node0",
            gpu_share=GpuShare(0, share) if share else None,
            gpu_groups=("0",),
            is_deleted=is_leaving,
        )
        scene.pods[-1] = replace(scene.pods[-1], request=Resources(0, size, 0))
    return scene


def test_memory_allocation_3_to_5_a_pod_waits_for_memory_beside_pods_that_name_a_device() -> None:
    """Pods that carry the label of a device and want no GPU are pods like any other."""
    pending, leaving = ("pending", 750, 50, False), ("leaving", 500, 0, True)
    for scene in (
        memory_scene(("pending", 1500, 50, False), ("leaving", 1000, 0, True)),
        memory_scene(pending, ("running", 1000, 25, False), leaving),
        memory_scene(pending, ("running", 1000, 0, False), leaving),
    ):
        found = states(scene)
        assert found["pending-0"] is PodState.PIPELINED
        assert found["leaving-0"] is PodState.RELEASING
        assert found.get("running-0", PodState.RUNNING) is PodState.RUNNING
        assert len(found) == len(scene.pods)


def test_preempt_fractional_0_the_smaller_share_goes_and_the_whole_gpu_stays() -> None:
    scene = Scene().queue("q", gpu=(2, -1, 0)).node("node0", 2, gpu_memory=100)
    scene.group("whole").pod("whole", "node0", gpu=1, gpu_groups=("0",))
    scene.group("part").pod("part", "node0", gpu_share=GpuShare(0, 50), gpu_groups=("1",))
    scene.group("pending", priority=100).pod("pending", gpu_share=GpuShare(0, 60))
    snapshot, bound = scene.snapshot(), []
    for seen, result in cycles(snapshot, ALL, 2):
        snapshot = after(seen, result)
        bound += [each.pod.name for each in result.decisions if isinstance(each, Bind)]
    assert bound == ["pending-0"]
    nodes = {pod.name: pod.node for pod in snapshot.pods}
    assert nodes == {"whole-0": "node0", "part-0": "", "pending-0": "node0"}
    assert not any(changes(result) for _, result in cycles(snapshot, ALL, 5))
