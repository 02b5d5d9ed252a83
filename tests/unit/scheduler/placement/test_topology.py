"""Domains of nodes, and where pods that want to be close together go."""

import pytest

from quarterdeck.scheduler import Action
from quarterdeck.scheduler.placement.domainchoice import choose_node_sets
from quarterdeck.scheduler.resource import Resources
from quarterdeck.scheduler.snapshot import TopologyConstraint, TopologyInfo
from tests.unit.scheduler.schedulerscene import ALLOCATE, NS, Scene, near, only, sub, topology


def racks(*gpus: int, zones: int = 0, levels: tuple[str, ...] = ("zone", "rack")) -> Scene:
    """A node with so many GPUs in each rack; so many racks in a zone, or all in one."""
    scene = Scene().queue("q")
    scene.extra = topology(*levels)
    for index, count in enumerate(gpus):
        labels = {"zone": f"z{index // zones if zones else 0}", "rack": f"r{index}"}
        scene.node(f"n{index}", count, labels=labels)
    return scene


def gang(scene: Scene, size: int, required: str = "", preferred: str = "", gpu: int = 1) -> Scene:
    return scene.job("a", waiting=size, gpu=gpu, topology_constraint=near(required, preferred))


def node_sets(scene: Scene, job: str = "a") -> list[list[str]]:
    """The node sets for the pods of the only job, in the order in which they are tried."""
    cluster = scene.cluster()
    (found,) = [each for each in cluster.jobs.values() if each.key.name == job]
    choice = choose_node_sets(
        cluster.topologies, found, found.root, cluster.all_nodes, found.tasks_to_allocate()
    )
    return [[node.name for node in each.nodes] for each in choice.node_sets]


def scores(scene: Scene) -> dict[str, int]:
    cluster = scene.cluster()
    (job,) = cluster.jobs.values()
    choice = choose_node_sets(cluster.topologies, job, job.root, cluster.all_nodes, job.tasks_to_allocate())
    assert choice.scores is not None
    return {node.name: choice.scores.of(node) for node in cluster.all_nodes.nodes}


def nodes_of(scene: Scene, job: str = "a") -> list[str]:
    outcome = scene.run(ALLOCATE)
    names = sorted(pod.name for pod in scene.pods if pod.pod_group == job)
    return [outcome[name][1] for name in names]


class TestTree:
    def test_a_domain_is_named_after_all_levels_down_to_its_own(self) -> None:
        tree = racks(1, 1, 1, zones=2).cluster().topologies.get("t")
        assert tree is not None
        assert [*tree.root.children] == ["z0", "z1"]
        assert [*tree.root.children["z0"].children] == ["z0.r0", "z0.r1"]

    def test_equal_names_in_different_domains_are_different(self) -> None:
        scene = Scene().queue("q")
        scene.extra = topology("zone", "rack")
        for zone in ("x", "y"):
            scene.node(f"n{zone}", 1, labels={"zone": zone, "rack": "r"})
        tree = scene.cluster().topologies.get("t")
        assert tree is not None
        assert [[*zone.children] for zone in tree.root.children.values()] == [["x.r"], ["y.r"]]

    def test_a_node_without_all_labels_is_outside(self) -> None:
        scene = racks(1, 1).node("half", 1, labels={"zone": "z0"}).node("none", 1)
        tree = scene.cluster().topologies.get("t")
        assert tree is not None
        assert [node.name for node in tree.root.set.nodes] == ["n0", "n1"]

    def test_domains_know_what_is_free(self) -> None:
        scene = racks(4, 8).job("r", "q", "n0", gpu=1)
        cluster = scene.cluster()
        tree = cluster.topologies.get("t")
        assert tree is not None
        assert tree.root.free == Resources(127_000, 127 << 30, 11)
        assert tree.root.children["z0"].children["z0.r0"].free.gpu == 3

    def test_what_terminates_counts_as_free(self) -> None:
        scene = racks(4).group("x").pod("x", "n0", gpu=4, is_deleted=True)
        tree = scene.cluster().topologies.get("t")
        assert tree is not None
        assert tree.root.free.gpu == 4


class TestNodeSets:
    def test_required_stays_in_one_domain(self) -> None:
        assert node_sets(gang(racks(2, 4, 8), 4, "rack")) == [["n1"], ["n2"]]
        assert nodes_of(gang(racks(2, 4, 8), 4, "rack")) == ["n1"] * 4

    def test_the_tightest_domain_comes_first(self) -> None:
        assert node_sets(gang(racks(8, 2, 4), 2, "rack")) == [["n1"], ["n2"], ["n0"]]

    def test_equally_tight_domains_go_by_name(self) -> None:
        assert node_sets(gang(racks(4, 4, 4), 2, "rack")) == [["n0"], ["n1"], ["n2"]]

    def test_tightness_is_the_largest_part_of_any_resource(self) -> None:
        scene = Scene().queue("q")
        scene.extra = topology("rack")
        scene.node("n0", 4, cpu=64, labels={"rack": "r0"}).node("n1", 8, cpu=2, labels={"rack": "r1"})
        assert node_sets(gang(scene, 2, "rack")) == [["n1"], ["n0"]]

    def test_siblings_stay_together_in_the_order_of_a_level(self) -> None:
        scene = racks(4, 8, 3, 20, zones=2)
        assert node_sets(gang(scene, 2, "rack")) == [["n0"], ["n1"], ["n2"], ["n3"]]

    def test_preferred_goes_from_narrow_to_wide_up_to_required(self) -> None:
        scene = gang(racks(2, 4, 1, 2, zones=2), 2, "zone", "rack")
        assert node_sets(scene) == [["n3"], ["n0"], ["n1"], ["n2", "n3"], ["n0", "n1"]]

    def test_preferred_alone_ends_with_everything(self) -> None:
        scene = gang(racks(2, 2, zones=1), 3, "", "rack")
        assert node_sets(scene) == [["n0", "n1"]]
        assert nodes_of(scene) == ["n1", "n1", "n0"]

    def test_nodes_outside_the_topology_are_not_used(self) -> None:
        scene = gang(racks(2), 3, "", "rack").node("out", 8)
        assert nodes_of(scene) == [""] * 3

    def test_a_job_without_a_constraint_goes_anywhere(self) -> None:
        assert node_sets(racks(2, 4).job("a", waiting=1)) == [["n0", "n1"]]

    def test_a_domain_that_fits_in_sum_but_not_pod_by_pod_is_left_out(self) -> None:
        scene = Scene().queue("q")
        scene.extra = topology("rack")
        for index in range(3):
            scene.node(f"n{index}", 3, labels={"rack": "r0"})
        scene.node("m0", 4, labels={"rack": "r1"}).node("m1", 4, labels={"rack": "r1"})
        assert node_sets(gang(scene, 4, "rack", gpu=2)) == [["m0", "m1"]]

    def test_different_pods_are_counted_as_copies_of_the_largest(self) -> None:
        scene = racks(4, 8).group("a", least=2, topology_constraint=near("rack"))
        scene.pod("a", gpu=1).pod("a", gpu=4)
        assert node_sets(scene) == [["n1"]]

    def test_pods_with_and_without_gpus_are_compared_by_sums(self) -> None:
        scene = racks(4, 8).group("a", least=2, topology_constraint=near("rack"))
        assert node_sets(scene.pod("a").pod("a", gpu=4)) == [["n0"], ["n1"]]

    def test_so_are_pods_with_different_other_resources(self) -> None:
        scene = racks(4).group("a", least=2, topology_constraint=near("rack"))
        scene.node("n9", labels={"zone": "z9", "rack": "r9"})
        scene.pod("a").pod("a", scalars=(("example.com/nic", 1),))
        assert node_sets(scene) == []

    def test_pods_that_run_hold_the_rest_to_their_domain(self) -> None:
        scene = racks(4, 2).group("a", topology_constraint=near("rack")).pod("a", "n0", gpu=1)
        assert node_sets(scene.pod("a", gpu=1)) == [["n0"]]
        assert nodes_of(scene) == ["n0", "n0"]

    def test_pods_that_run_do_not_bind_those_who_only_prefer(self) -> None:
        scene = racks(4, 2).group("a", topology_constraint=near("", "rack")).pod("a", "n0", gpu=1)
        assert node_sets(scene.pod("a", gpu=1))[0] == ["n1"]

    def test_a_pod_that_runs_outside_the_topology_keeps_the_others_from_running(self) -> None:
        scene = racks(4).node("out", 4).group("a", topology_constraint=near("rack")).pod("a", "out", gpu=1)
        assert node_sets(scene.pod("a", gpu=1)) == []

    def test_domains_on_the_way_to_the_only_rack_are_candidates(self) -> None:
        assert node_sets(gang(racks(4), 2, "", "zone")) == [["n0"], ["n0"]]

    def test_the_next_domain_is_tried_when_pods_do_not_fit_after_all(self) -> None:
        scene = gang(racks(4, 8), 4, "rack")
        scene.nodes[0] = Scene().node("n0", 4, labels=scene.nodes[0].labels, is_ready=False).nodes[0]
        assert nodes_of(scene) == ["n1"] * 4


class TestScores:
    def test_the_loosest_domain_scores_most(self) -> None:
        assert scores(gang(racks(4, 8, 2), 13, "", "rack")) == {"n2": 30000, "n0": 60000, "n1": 100000}

    def test_a_job_that_spans_domains_begins_with_the_loosest(self) -> None:
        assert nodes_of(gang(racks(4, 8, 2), 10, "", "rack")) == ["n1"] * 8 + ["n0"] * 2

    def test_a_nominated_node_still_wins(self) -> None:
        scene = racks(4, 8).group("a", least=9, topology_constraint=near("", "rack"))
        for index in range(9):
            scene.pod("a", gpu=1, nominated_node="n0" if index == 0 else "")
        assert nodes_of(scene) == ["n0", *["n1"] * 8]


class TestNesting:
    def scene(self) -> Scene:
        """Two zones with two racks of two nodes with four GPUs."""
        scene = Scene().queue("q")
        scene.extra = topology("zone", "rack")
        for index in range(8):
            scene.node(f"n{index}", 4, labels={"zone": f"z{index // 4}", "rack": f"r{index // 2}"})
        return scene

    def test_a_subgroup_is_placed_inside_the_domain_of_its_parent(self) -> None:
        scene = self.scene().group(
            "a",
            topology_constraint=near("zone"),
            subgroups=(
                sub("s", 2, topology_constraint=near("rack")),
                sub("w", 2, topology_constraint=near("rack")),
            ),
        )
        for name in ("s", "s", "w", "w"):
            scene.pod("a", gpu=4, subgroup=name)
        assert nodes_of(scene) == ["n0", "n1", "n2", "n3"]

    def test_each_subgroup_has_its_own_domain_without_a_parent_constraint(self) -> None:
        scene = self.scene().group(
            "a", subgroups=(sub("s", 2, topology_constraint=near("rack")), sub("w", 5))
        )
        for name in ("s", "s", *["w"] * 5):
            scene.pod("a", gpu=4, subgroup=name)
        assert nodes_of(scene)[:2] == ["n0", "n1"]

    def test_another_domain_of_the_parent_is_tried_when_a_child_does_not_fit(self) -> None:
        scene = (
            self.scene()
            .job("r", "q", "n0", "n2", gpu=1)
            .group(
                "a",
                topology_constraint=near("zone"),
                subgroups=(sub("s", 2, topology_constraint=near("rack")),),
            )
        )
        scene.pod("a", gpu=4, subgroup="s").pod("a", gpu=4, subgroup="s")
        assert nodes_of(scene) == ["n4", "n5"]

    def test_the_scores_of_a_parent_hold_for_children_without_their_own(self) -> None:
        scene = (
            self.scene()
            .job("r", "q", "n0", gpu=2)
            .group("a", topology_constraint=near("", "zone"), subgroups=(sub("s", 17),))
        )
        for _ in range(17):
            scene.pod("a", gpu=1, subgroup="s")
        assert nodes_of(scene)[0] == "n4"

    def test_sets_between_carry_constraints_as_well(self) -> None:
        scene = self.scene().group(
            "a",
            subgroups=(
                sub("top", topology_constraint=near("rack")),
                sub("s", 1, "top"),
                sub("w", 1, "top"),
            ),
        )
        scene.pod("a", gpu=4, subgroup="s").pod("a", gpu=4, subgroup="w")
        assert nodes_of(scene) == ["n0", "n1"]


class TestErrors:
    def message(self, scene: Scene) -> str:
        return scene.run(ALLOCATE).message("a")

    def test_an_unknown_topology(self) -> None:
        constraint = TopologyConstraint(topology="x", required_level="rack")
        scene = racks(4).job("a", waiting=1, topology_constraint=constraint)
        assert self.message(scene) == "PodSchedulingErrors: Requested topology x does not exist."

    def test_not_enough_in_the_whole_cluster(self) -> None:
        assert self.message(gang(racks(2, 2, zones=1), 5, "rack")) == (
            f"PodSchedulingErrors: topology t, requirement rack couldn't be satisfied for job <{NS}/a>: "
            "not enough resources in the cluster to allocate the job."
        )

    def test_not_enough_in_the_only_domain(self) -> None:
        assert self.message(gang(racks(2), 5, "rack")).endswith(
            ": not enough resources in z0.r0 to allocate the job."
        )

    def test_no_requirement_no_name(self) -> None:
        assert "topology t, requirement  couldn't be satisfied" in self.message(gang(racks(2), 5, "", "rack"))

    def test_no_domain_is_large_enough(self) -> None:
        assert self.message(gang(racks(2, 2), 3, "rack")) == (
            "Unable to schedule podgroup: node-group z0.r0 can allocate only 2 of 3 required pods. \n"
            "node-group z0.r1 can allocate only 2 of 3 required pods. \n"
            f"topology t, requirement rack couldn't be satisfied for job <{NS}/a>."
        )

    def test_domains_compared_by_sums_tell_what_they_lack(self) -> None:
        scene = racks(2, 3).group("a", least=2, topology_constraint=near("rack"))
        scene.pod("a", cpu=65).pod("a", gpu=4, cpu=0)
        outcome = scene.run(only(Action.ALLOCATE, detailed_fit_errors=True))
        lacks = "didn't have enough resources"
        assert outcome.message("a") == (
            "\nUnable to schedule podgroup."
            f"\n<z0.r0>: z0.r0 {lacks}: CPU cores, requested: 65, available: 64, "
            "z0.r0 didn't have enough resource: GPUs, requested: 4, available: 2."
            f"\n<z0.r1>: z0.r1 {lacks}: CPU cores, requested: 65, available: 64, "
            "z0.r1 didn't have enough resource: GPUs, requested: 4, available: 3."
            f"\ntopology t, requirement rack couldn't be satisfied for job <{NS}/a>."
        )
        assert self.message(scene) == (
            f"Unable to schedule podgroup: 2 node-group(s) {lacks}: CPU cores. \n"
            f"2 node-group(s) {lacks}: GPUs. \n"
            f"topology t, requirement rack couldn't be satisfied for job <{NS}/a>."
        )

    def test_a_subgroup_is_named(self) -> None:
        scene = racks(2, 2).group("a", subgroups=(sub("s", 3, topology_constraint=near("rack")),))
        for _ in range(3):
            scene.pod("a", gpu=1, subgroup="s")
        assert self.message(scene).endswith(
            f"topology t, requirement rack couldn't be satisfied for job <{NS}/a>, subgroup s."
        )
        detailed = scene.run(only(Action.ALLOCATE, detailed_fit_errors=True)).message("a")
        assert "\n<z0.r0>: subgroup s: node-group z0.r0 can allocate only 2 of 3 required pods." in detailed

    @pytest.mark.parametrize("kind", ["required", "preferred"])
    @pytest.mark.parametrize(("subgroup", "who"), [("", "workload"), ("s", "sub-group s")])
    def test_an_unknown_level(self, kind: str, subgroup: str, who: str) -> None:
        constraint = near("floor") if kind == "required" else near("zone", "floor")
        if subgroup:
            subgroups = (sub("s", 1, topology_constraint=constraint),)
            scene = racks(4).group("a", subgroups=subgroups).pod("a", gpu=1, subgroup="s")
        else:
            scene = racks(4).job("a", waiting=1, gpu=1, topology_constraint=constraint)
        assert self.message(scene) == (
            f"PodSchedulingErrors: topology constraint error: {who} specified 'floor' as the {kind} topology "
            "constraint level, but the topology tree 't' does not contain a level with this name."
        )

    def test_a_topology_without_a_level(self) -> None:
        scene = racks(4).job("a", waiting=1, gpu=1, topology_constraint=near())
        assert scene.run(ALLOCATE)["a-0"] == ("Pending", "")
        assert "no topology constraints were found" in self.message(scene)


class TestSharedNames:
    def test_two_topologies_over_the_same_nodes_do_not_mix(self) -> None:
        scene = racks(4, 4)
        scene.extra = {
            "topologies": (TopologyInfo(name="t", levels=("rack",)), TopologyInfo(name="u", levels=("zone",)))
        }
        scene.job(
            "a", waiting=8, gpu=1, topology_constraint=TopologyConstraint(topology="u", required_level="zone")
        )
        assert set(nodes_of(scene)) == {"n0", "n1"}
