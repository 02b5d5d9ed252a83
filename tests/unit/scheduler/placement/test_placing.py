"""Which node a pod gets, and whether its gang starts."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.api import Key, from_dict
from quarterdeck.api.k8s import Affinity, NodeSelector, Taint, Toleration
from quarterdeck.scheduler import Action, Settings, schedule
from quarterdeck.scheduler.decision import Bind, Pipeline, SetLastStart
from quarterdeck.scheduler.snapshot import GpuShare, HostPort, PodConstraints, Snapshot
from tests.unit.scheduler.schedulerscene import ALLOCATE, NOW, NS, Outcome, Scene, gpu_node, only, sub


def node_of(scene: Scene, pod: str = "a-0", settings: Settings = ALLOCATE) -> str:
    state, node = scene.run(settings)[pod]
    assert state in ("Allocated", "Pipelined")
    return node


class TestScore:
    def test_pods_are_packed_on_the_node_with_the_fewest_free_gpus(self) -> None:
        scene = Scene().node("n0", 8).node("n1", 4).node("n2", 2).queue("q").job("a", waiting=1, gpu=3)
        assert node_of(scene) == "n1"

    def test_equal_nodes_are_taken_by_name(self) -> None:
        assert node_of(Scene().node("b", 4).node("a", 4).queue("q").job("a", waiting=1, gpu=1)) == "a"

    def test_pods_without_gpus_are_packed_by_cpu(self) -> None:
        scene = Scene().node("n0", cpu=64).node("n1", cpu=4).node("n2", cpu=8).queue("q").job("a", waiting=1)
        assert node_of(scene) == "n1"

    def test_pods_without_gpus_leave_gpu_nodes_alone(self) -> None:
        scene = Scene().node("n0", 8, cpu=2).node("n1", cpu=64).queue("q").job("a", waiting=1)
        assert node_of(scene) == "n1"

    def test_where_a_pod_can_start_at_once_beats_packing(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 8).queue("q")
        scene.group("x").pod("x", "n0", gpu=1, is_deleted=True).job("a", waiting=1, gpu=1)
        outcome = scene.run(ALLOCATE)
        assert outcome["a-0"] == ("Allocated", "n1")

    def test_starting_at_once_beats_leaving_gpu_nodes_alone(self) -> None:
        scene = Scene().node("n0", cpu=1).node("n1", 8).queue("q")
        scene.group("x").pod("x", "n0", is_deleted=True).job("a", waiting=1)
        assert scene.run(ALLOCATE)["a-0"] == ("Allocated", "n1")

    def test_the_nominated_node_beats_everything(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 8).queue("q").group("a")
        assert node_of(scene.pod("a", gpu=1, nominated_node="n1")) == "n1"

    def test_a_nominated_node_without_room_is_no_help(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 8).queue("q").group("a")
        assert node_of(scene.pod("a", gpu=2, nominated_node="n0")) == "n1"

    def test_spreading_prefers_the_emptiest_node(self) -> None:
        scene = Scene().node("n0", 8).node("n1", 4).queue("q").job("r", "q", "n0", "n0", "n0", gpu=1)
        scene.job("a", waiting=1, gpu=1)
        assert node_of(scene, settings=only(Action.ALLOCATE, gpu_placement="spread")) == "n1"

    def test_parts_of_gpus_are_packed_or_spread(self) -> None:
        scene = Scene().node("n0", 2).node("n1", 2).queue("q").group("x")
        scene.pod("x", "n0", gpu_share=GpuShare(0.2), gpu_groups=("g",))
        scene.group("a").pod("a", gpu_share=GpuShare(0.5))
        assert scene.run(ALLOCATE).of(Bind)[0].gpu_groups == ("g",)
        (spread,) = scene.run(only(Action.ALLOCATE, gpu_placement="spread")).of(Bind)
        assert (spread.node, spread.gpu_groups) != ("n0", ("g",))
        assert spread.node == "n1"
        alone = Scene().node("n0", 2).queue("q").group("x")
        alone.pod("x", "n0", gpu_share=GpuShare(0.2), gpu_groups=("g",))
        alone.group("a").pod("a", gpu_share=GpuShare(0.5, 0, 2))
        (both,) = alone.run(only(Action.ALLOCATE, gpu_placement="spread")).of(Bind)
        assert len(both.gpu_groups) == 2
        assert "g" in both.gpu_groups

    def test_spreading_of_cpu_is_set_apart(self) -> None:
        scene = (
            Scene().node("n0", cpu=4).node("n1", cpu=64).queue("q").job("r", "q", "n0").job("a", waiting=1)
        )
        assert node_of(scene, settings=only(Action.ALLOCATE, gpu_placement="spread")) == "n0"
        assert node_of(scene, settings=only(Action.ALLOCATE, cpu_placement="spread")) == "n1"

    def test_a_gang_fills_one_node_after_the_other(self) -> None:
        scene = Scene().node("n0", 4).node("n1", 2).queue("q").job("a", waiting=5, gpu=1)
        outcome = scene.run(ALLOCATE)
        assert [outcome[f"a-{index}"][1] for index in range(5)] == ["n1", "n1", "n0", "n0", "n0"]


class TestResources:
    @pytest.mark.parametrize(
        ("node", "pod", "reason"),
        [
            ({"gpu": 2}, {"gpu": 2}, "node(s) didn't have enough resources: GPUs"),
            ({"cpu": 2}, {"cpu": 2}, "node(s) didn't have enough resources: CPU cores"),
            ({"memory": 2}, {"memory": 2}, "node(s) didn't have enough resources: memory"),
            ({"pods": 1}, {}, "node(s) pod number exceeded"),
        ],
    )
    def test_what_a_node_lacks_is_told(self, node: dict[str, Any], pod: dict[str, Any], reason: str) -> None:
        scene = Scene().node("n0", **node).queue("q").group("x").pod("x", "n0", gpu=node.get("gpu", 0) // 2)
        scene.group("a").pod("a", **pod)
        assert scene.run(ALLOCATE).message("a") == (
            f"PodSchedulingErrors: Resources were not found for pod {NS}/a-0 due to: "
            f"no nodes with enough resources were found: 1 {reason}.."
        )

    @pytest.mark.parametrize(
        ("node", "pod", "text"),
        [
            (
                {"gpu": 1},
                {"gpu": 2},
                (
                    "GPU: 2, CPU: 1 (cores), memory: 1.073 (GB). Max GPU resources available in a single "
                    "node in the default node-pool is topped at 1"
                ),
            ),
            (
                {},
                {"gpu": 2},
                (
                    "GPU: 2, CPU: 1 (cores), memory: 1.073 (GB). "
                    "No node in the default node-pool has GPU resources"
                ),
            ),
            (
                {"cpu": 1},
                {"cpu": 2},
                (
                    "GPU: 0, CPU: 2 (cores), memory: 1.073 (GB). Max CPU resources available in a single "
                    "node in the default node-pool is topped at 1 cores"
                ),
            ),
            (
                {"memory": 1},
                {"memory": 2},
                (
                    "GPU: 0, CPU: 1 (cores), memory: 2.147 (GB). Max memory resources available in a single "
                    "node in the default node-pool is topped at 1.073 GB"
                ),
            ),
            (
                {},
                {"scalars": (("example.com/nic", 1),)},
                (
                    "GPU: 0, CPU: 1 (cores), memory: 1.073 (GB), example.com/nic: 1. No node in the default "
                    "node-pool has example.com/nic resources"
                ),
            ),
        ],
    )
    def test_a_pod_that_no_node_could_ever_take_is_told_so(
        self, node: dict[str, Any], pod: dict[str, Any], text: str
    ) -> None:
        scene = Scene().node("n0", **node).queue("q").group("a").pod("a", **pod)
        message = scene.run(ALLOCATE).message("a")
        assert message.startswith(
            f"PodSchedulingErrors: Resources were not found for pod {NS}/a-0 due to: "
            "no nodes with enough resources were found: 1 node(s) didn't have enough resources: "
        )
        assert message.endswith(f". MaxNodePoolResources: The pod {NS}/a-0 requires {text}.")

    @pytest.mark.parametrize(("pod", "name"), [({"gpu": 1}, "GPU"), ({}, "CPU"), ({"cpu": 0}, "memory")])
    def test_where_there_is_no_node_none_has_anything(self, pod: dict[str, Any], name: str) -> None:
        message = Scene().queue("q").group("a").pod("a", **pod).run(ALLOCATE).message("a")
        assert message.endswith(f"No node in the default node-pool has {name} resources.")

    def test_pods_of_other_schedulers_use_nodes_up(self) -> None:
        scene = (
            gpu_node(2).pod("x", "n0", gpu=1, scheduler_name="default-scheduler").job("a", waiting=1, gpu=2)
        )
        assert scene.run(ALLOCATE)["a-0"] == ("Pending", "")

    def test_pods_that_ended_use_nothing(self) -> None:
        scene = gpu_node(1).group("x").pod("x", "n0", gpu=1, phase="Succeeded").job("a", waiting=1, gpu=1)
        assert scene.run(ALLOCATE)["a-0"] == ("Allocated", "n0")

    def test_a_pod_that_requests_nothing_needs_a_slot(self) -> None:
        scene = Scene().node("n0", pods=1).queue("q").group("a", least=1)
        scene.pod("a", cpu=0, memory=0).pod("a", cpu=0, memory=0)
        assert sorted(scene.run(ALLOCATE).states("a")) == ["Allocated", "Pending"]

    def test_reasons_are_counted_over_nodes_and_sorted(self) -> None:
        scene = Scene().node("n0", 1).node("n1", 0).node("n2", 8, cpu=1).queue("q").group("a")
        assert (
            scene.pod("a", gpu=2, cpu=2)
            .run(ALLOCATE)
            .message("a")
            .endswith(
                "were found: 1 node(s) didn't have enough resources: CPU cores. \n"
                "2 node(s) didn't have enough resources: GPUs.."
            )
        )

    def test_a_terminating_pod_makes_room_that_can_be_promised(self) -> None:
        scene = gpu_node(1).group("x").pod("x", "n0", gpu=1, is_deleted=True).job("a", waiting=1, gpu=1)
        outcome = scene.run(ALLOCATE)
        assert outcome["a-0"] == ("Pipelined", "n0")
        assert outcome.of(Pipeline) == [Pipeline(pod=Key(NS, "a-0"), pod_group=Key(NS, "a"), node="n0")]
        assert outcome.of(Bind) == []

    def test_what_is_promised_to_one_is_not_given_to_another(self) -> None:
        scene = gpu_node(2).group("x").pod("x", "n0", gpu=1, is_deleted=True)
        scene.job("big", waiting=1, gpu=2).job("small", waiting=1, gpu=1)
        outcome = scene.run(ALLOCATE)
        assert outcome["big-0"] == ("Pipelined", "n0")
        assert outcome["small-0"] == ("Pending", "")


class TestGang:
    def test_a_gang_starts_as_a_whole_or_not_at_all(self) -> None:
        outcome = gpu_node(3).job("a", waiting=4, gpu=1).run(ALLOCATE)
        assert set(outcome.states("a")) == {"Pending"}
        assert outcome.of(Bind) == []

    def test_a_gang_that_does_not_fit_lets_a_smaller_one_pass(self) -> None:
        outcome = gpu_node(3).job("a", waiting=4, gpu=1).job("b", waiting=3, gpu=1).run(ALLOCATE)
        assert set(outcome.states("b")) == {"Allocated"}

    def test_a_gang_with_one_promised_pod_is_promised_as_a_whole(self) -> None:
        scene = gpu_node(2).group("x").pod("x", "n0", gpu=1, is_deleted=True).job("a", waiting=2, gpu=1)
        outcome = scene.run(ALLOCATE)
        assert outcome.states("a") == ["Pipelined", "Pipelined"]
        assert outcome.of(SetLastStart) == []

    def test_pods_beyond_the_minimum_may_wait_while_the_others_start(self) -> None:
        scene = gpu_node(2).group("x").pod("x", "n0", gpu=1, is_deleted=True)
        outcome = scene.job("a", waiting=2, gpu=1, least=1).run(ALLOCATE)
        assert outcome.states("a") == ["Allocated", "Pipelined"]

    def test_an_elastic_gang_grows_as_far_as_there_is_room(self) -> None:
        outcome = gpu_node(3).job("a", waiting=5, gpu=1, least=2).run(ALLOCATE)
        assert outcome.states("a") == ["Allocated"] * 3 + ["Pending"] * 2

    def test_growth_competes_with_other_jobs(self) -> None:
        outcome = gpu_node(3).job("a", waiting=3, gpu=1, least=1).job("b", waiting=2, gpu=1).run(ALLOCATE)
        assert outcome.states("a") == ["Allocated", "Pending", "Pending"]
        assert outcome.states("b") == ["Allocated", "Allocated"]

    def test_all_subgroups_start_together(self) -> None:
        scene = gpu_node(2).group("a", subgroups=(sub("l", 1), sub("w", 2)))
        scene.pod("a", gpu=1, subgroup="l").pod("a", gpu=1, subgroup="w").pod("a", gpu=1, subgroup="w")
        assert set(scene.run(ALLOCATE).states("a")) == {"Pending"}
        scene.nodes.clear()
        assert set(scene.node("n0", 3).run(ALLOCATE).states("a")) == {"Allocated"}

    def test_the_first_start_is_noted(self) -> None:
        assert gpu_node(2).job("a", waiting=2, gpu=1).run(ALLOCATE).of(SetLastStart) == [
            SetLastStart(Key(NS, "a"), NOW)
        ]

    def test_a_gang_that_grows_has_started_before(self) -> None:
        scene = gpu_node(2).group("a", least=1).pod("a", "n0", gpu=1).pod("a", gpu=1)
        assert scene.run(ALLOCATE).of(SetLastStart) == []

    def test_jobs_that_are_not_ready_are_left_alone(self) -> None:
        scene = gpu_node(4).group("a", least=2).pod("a", gpu=1).pod("a", gpu=1, is_gated=True)
        assert scene.run(ALLOCATE).states("a") == ["Pending", "Gated"]

    def test_a_queue_that_is_no_leaf_schedules_nothing(self) -> None:
        scene = Scene().node("n0", 4).queue("q").queue("child", "q").job("a", waiting=1, gpu=1)
        assert scene.run(ALLOCATE)["a-0"] == ("Pending", "")


def constrained(**fields: Any) -> Outcome:
    """A pod with constraints on two nodes, of which the second has a label and a pod."""
    constraints = PodConstraints(**fields)
    scene = Scene().node("n0", labels={"zone": "a"}).node("n1", labels={"zone": "b", "disk": "ssd"})
    return scene.queue("q").group("a").pod("a", constraints=constraints).run(ALLOCATE)


def affinity(**fields: Any) -> Affinity:
    return from_dict(fields, Affinity)


def node_affinity(*expressions: dict[str, Any], fields: tuple[Any, ...] = ()) -> Affinity:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return affinity(nodeAffinity=required)


class TestNodes:
    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"is_ready": False}, "node has NotReady condition"),
            ({"is_unschedulable": True}, "node is unschedulable"),
            ({"pressures": ("MemoryPressure",)}, "node has MemoryPressure condition"),
            (
                {"taints": (Taint(key="k", value="v", effect="NoSchedule"),)},
                "node(s) had untolerated taint {k: v}",
            ),
            ({"taints": (Taint(key="k", effect="NoExecute"),)}, "node(s) had untolerated taint {k: }"),
        ],
    )
    def test_nodes_that_take_no_pods(self, fields: dict[str, Any], reason: str) -> None:
        outcome = Scene().node("n0", **fields).queue("q").job("a", waiting=1).run(ALLOCATE)
        assert outcome["a-0"] == ("Pending", "")
        assert outcome.message("a").endswith(f"were found: 1 {reason}..")

    def test_a_taint_that_only_prefers_is_no_obstacle(self) -> None:
        taint = Taint(key="k", effect="PreferNoSchedule")
        outcome = Scene().node("n0", taints=(taint,)).queue("q").job("a", waiting=1).run(ALLOCATE)
        assert outcome["a-0"] == ("Allocated", "n0")

    @pytest.mark.parametrize(
        ("toleration", "tolerates"),
        [
            (Toleration(key="k", operator="Equal", value="v"), True),
            (Toleration(key="k", value="v", effect="NoSchedule"), True),
            (Toleration(key="k", operator="Exists"), True),
            (Toleration(operator="Exists"), True),
            (Toleration(key="k", value="w"), False),
            (Toleration(key="k", value="v", effect="NoExecute"), False),
            (Toleration(key="j", operator="Exists"), False),
        ],
    )
    def test_taints_are_tolerated_as_kubernetes_says(self, toleration: Toleration, tolerates: bool) -> None:
        scene = Scene().node("n0", taints=(Taint(key="k", value="v", effect="NoSchedule"),)).queue("q")
        scene.group("a").pod("a", constraints=PodConstraints(tolerations=(toleration,)))
        assert (scene.run(ALLOCATE)["a-0"][0] == "Allocated") is tolerates

    def test_a_node_selector_chooses(self) -> None:
        assert constrained(node_selector=(("disk", "ssd"),))["a-0"] == ("Allocated", "n1")
        outcome = constrained(node_selector=(("disk", "tape"),))
        assert outcome.message("a").endswith(
            "were found: 2 node(s) didn't match Pod's node affinity/selector.."
        )

    @pytest.mark.parametrize(
        ("expression", "node"),
        [
            ({"key": "zone", "operator": "In", "values": ["b"]}, "n1"),
            ({"key": "zone", "operator": "NotIn", "values": ["a"]}, "n1"),
            ({"key": "disk", "operator": "Exists"}, "n1"),
            ({"key": "disk", "operator": "DoesNotExist"}, "n0"),
            ({"key": "zone", "operator": "Gt", "values": ["1"]}, ""),
            ({"key": "zone", "operator": "Nonsense"}, ""),
        ],
    )
    def test_node_affinity_chooses(self, expression: dict[str, Any], node: str) -> None:
        assert constrained(affinity=node_affinity(expression))["a-0"][1] == node

    def test_node_affinity_by_name(self) -> None:
        field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        assert constrained(affinity=node_affinity(fields=(field,)))["a-0"][1] == "n1"

    def test_an_empty_term_matches_no_node(self) -> None:
        assert constrained(affinity=node_affinity())["a-0"] == ("Pending", "")

    def test_volumes_bind_a_pod_to_their_nodes(self) -> None:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
        selector = from_dict({"nodeSelectorTerms": [term]}, NodeSelector)
        assert constrained(volume_nodes=(selector,))["a-0"] == ("Allocated", "n1")
        other = from_dict({"nodeSelectorTerms": []}, NodeSelector)
        assert "2 node(s) had volume node affinity conflict" in constrained(volume_nodes=(other,)).message(
            "a"
        )

    def test_claims_without_volumes_are_bound_to_the_nodes_that_may_serve_them(self) -> None:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
        selector = from_dict({"nodeSelectorTerms": [term]}, NodeSelector)
        assert constrained(claim_nodes=(selector,))["a-0"] == ("Allocated", "n1")
        none = from_dict({"nodeSelectorTerms": []}, NodeSelector)
        assert "2 node(s) didn't find available persistent volumes to bind" in constrained(
            claim_nodes=(none,)
        ).message("a")

    def test_problems_of_the_pod_are_told_instead_of_nodes(self) -> None:
        outcome = constrained(problems=("VolumeBinding: no claim", "ConfigMap: no map"))
        assert outcome.message("a") == (
            f"PodSchedulingErrors: Resources were not found for pod {NS}/a-0 due to: Scheduling conditions "
            f"were not met for pod {NS}/a-0:\nVolumeBinding: no claim.\nConfigMap: no map."
        )


class TestHostPorts:
    PORT = PodConstraints(host_ports=(HostPort(80),))

    def scene(self, port: HostPort, **fields: Any) -> Scene:
        scene = Scene().node("n0").queue("q").group("x", created=-1.0)
        scene.pod("x", "n0", constraints=PodConstraints(host_ports=(port,)), **fields)
        return scene.group("a").pod("a", constraints=self.PORT)

    @pytest.mark.parametrize(
        ("port", "clashes"),
        [
            (HostPort(80), True),
            (HostPort(81), False),
            (HostPort(80, "UDP"), False),
            (HostPort(80, "TCP", "10.0.0.1"), True),
        ],
    )
    def test_a_port_is_taken_once(self, port: HostPort, clashes: bool) -> None:
        outcome = self.scene(port).run(ALLOCATE)
        assert (outcome["a-0"][0] == "Pending") is clashes
        if clashes:
            assert "1 node(s) didn't have free ports for the requested pod ports" in outcome.message("a")

    def test_the_port_of_a_terminating_pod_is_promised(self) -> None:
        assert self.scene(HostPort(80), is_deleted=True).run(ALLOCATE)["a-0"] == ("Pipelined", "n0")

    def test_pods_of_one_gang_clash_as_well(self) -> None:
        scene = Scene().node("n0").node("n1").queue("q").group("a", least=2)
        outcome = scene.pod("a", constraints=self.PORT).pod("a", constraints=self.PORT).run(ALLOCATE)
        assert {outcome["a-0"][1], outcome["a-1"][1]} == {"n0", "n1"}


def pod_term(app: str, key: str = "host", **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def wants(*terms: dict[str, Any]) -> PodConstraints:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return PodConstraints(affinity=affinity(podAffinity=required))


def avoids(*terms: dict[str, Any]) -> PodConstraints:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return PodConstraints(affinity=affinity(podAntiAffinity=required))


class TestPodAffinity:
    def scene(self) -> Scene:
        scene = Scene().queue("q").group("x", created=-1.0)
        for index in range(3):
            scene.node(f"n{index}", labels={"host": f"n{index}", "zone": f"z{index // 2}"})
        return scene.group("a")

    def test_a_pod_joins_those_it_wants(self) -> None:
        scene = self.scene().pod("x", "n2", labels={"app": "db"})
        assert node_of(scene.pod("a", constraints=wants(pod_term("db")))) == "n2"

    def test_wanting_nobody_who_exists_is_hopeless_unless_it_is_oneself(self) -> None:
        scene = self.scene().pod("a", constraints=wants(pod_term("db")))
        outcome = scene.run(ALLOCATE)
        assert "3 node(s) didn't match pod affinity rules" in outcome.message("a")
        scene = self.scene().pod("a", constraints=wants(pod_term("db")), labels={"app": "db"})
        assert scene.run(ALLOCATE)["a-0"][0] == "Allocated"

    def test_a_gang_that_wants_to_be_together_gathers_around_its_first_pod(self) -> None:
        scene = self.scene()
        scene.groups.pop()
        scene.group("a", least=3)
        for _ in range(3):
            scene.pod("a", constraints=wants(pod_term("db", "zone")), labels={"app": "db"}, cpu=40)
        outcome = scene.run(ALLOCATE)
        assert set(outcome.states("a")) == {"Pending"}
        scene.pods = [pod for pod in scene.pods if pod.name != "a-2"]
        scene.groups.pop()
        outcome = scene.group("a", least=2).run(ALLOCATE)
        assert {outcome["a-0"][1], outcome["a-1"][1]} == {"n0", "n1"}

    def test_a_pod_stays_away_from_those_it_avoids(self) -> None:
        scene = self.scene().pod("x", "n0", labels={"app": "db"})
        assert node_of(scene.pod("a", constraints=avoids(pod_term("db")))) == "n1"
        scene.pods[-1:] = []
        assert node_of(scene.pod("a", constraints=avoids(pod_term("db", "zone")))) == "n2"

    def test_nowhere_to_go(self) -> None:
        scene = self.scene()
        for index in range(3):
            scene.pod("x", f"n{index}", labels={"app": "db"})
        outcome = scene.pod("a", constraints=avoids(pod_term("db"))).run(ALLOCATE)
        assert "3 node(s) didn't match pod anti-affinity rules" in outcome.message("a")

    def test_pods_that_are_there_keep_others_away(self) -> None:
        scene = self.scene()
        for index in range(3):
            scene.pod("x", f"n{index}", constraints=avoids(pod_term("web")))
        outcome = scene.pod("a", labels={"app": "web"}).run(ALLOCATE)
        assert "3 node(s) didn't satisfy existing pods anti-affinity rules" in outcome.message("a")
        scene.pods.pop()
        assert scene.pod("a", labels={"app": "other"}).run(ALLOCATE)["a-0"][0] == "Allocated"

    def test_a_gang_that_avoids_itself_spreads(self) -> None:
        scene = self.scene()
        scene.groups.pop()
        scene.group("a", least=3)
        for _ in range(3):
            scene.pod("a", constraints=avoids(pod_term("a")), labels={"app": "a"})
        outcome = scene.run(ALLOCATE)
        assert {outcome[f"a-{index}"][1] for index in range(3)} == {"n0", "n1", "n2"}

    def test_one_that_terminates_is_waited_for(self) -> None:
        scene = self.scene().pod("x", "n0", labels={"app": "db"}, is_deleted=True)
        for index in (1, 2):
            scene.pod("x", f"n{index}", labels={"app": "db"})
        assert scene.pod("a", constraints=avoids(pod_term("db"))).run(ALLOCATE)["a-0"] == ("Pipelined", "n0")

    @pytest.mark.parametrize(
        ("term", "node"),
        [
            ({"namespaces": ["far"]}, "n2"),
            ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, "n2"),
            ({"namespaceSelector": {}}, "n2"),
            ({}, "n1"),
        ],
    )
    def test_namespaces_of_a_term(self, term: dict[str, Any], node: str) -> None:
        scene = self.scene().pod("x", "n1", labels={"app": "db"})
        scene.extra["namespaces"] = {"far": {"env": "prod"}, NS: {}}
        scene.pod("x", "n2", labels={"app": "db"}, name="stranger")
        scene.pods[-1] = replace(scene.pods[-1], namespace="far", pod_group="")
        if term == {"namespaceSelector": {}}:
            scene.pods.pop(0)
        assert node_of(scene.pod("a", constraints=wants(pod_term("db", **term)))) == node

    def test_label_keys_of_the_pod_narrow_a_term(self) -> None:
        scene = self.scene().pod("x", "n1", labels={"app": "db", "version": "1"})
        scene.pod("x", "n2", labels={"app": "db", "version": "2"})
        term = pod_term("db", matchLabelKeys=["version"])
        assert node_of(scene.pod("a", constraints=wants(term), labels={"version": "2"})) == "n2"
        scene.pods.pop()
        term = pod_term("db", mismatchLabelKeys=["version"])
        assert node_of(scene.pod("a", constraints=wants(term), labels={"version": "2"})) == "n1"


def test_the_order_of_the_input_does_not_matter() -> None:
    scene = (
        Scene().node("n0", 4).node("n1", 4).queue("d").queue("q", "d", (2, -1, 1)).queue("p", "d", (4, -1, 1))
    )
    scene.job("r", "q", "n0", "n0", "n1", gpu=1, least=1).job("a", "p", waiting=3, gpu=2)
    scene.job("b", "q", waiting=2, gpu=1).job("c", "p", waiting=2, gpu=1, priority=75)
    base = scene.snapshot()
    expected = schedule(base)
    for pods in itertools.islice(itertools.permutations(base.pods), 0, 5000, 700):
        mixed = Snapshot(
            now=base.now,
            nodes=base.nodes[::-1],
            pods=pods,
            pod_groups=base.pod_groups[::-1],
            queues=base.queues[::-1],
            priority_classes=base.priority_classes,
        )
        assert schedule(mixed).decisions == expected.decisions
