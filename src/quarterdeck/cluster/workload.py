"""What makes workloads run: controllers of Deployments, Jobs and so on, a scheduler, simulated nodes.

Each part can be left out. A test of an operator that makes Jobs may want them to stay as they are; a cluster
with another scheduler wants no default one::

    Workloads(jobs=None)
    Workloads(scheduler=None, nodes=NodeSettings(count=8), kubelet=Kubelet(Behavior(run_seconds=5)))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quarterdeck.cluster.autoscaling.controller import autoscaling_controller
from quarterdeck.cluster.cronjob.controller import cronjob_controller
from quarterdeck.cluster.daemonset.controller import daemonset_controller
from quarterdeck.cluster.deployment.controller import deployment_controller
from quarterdeck.cluster.disruption import controller as disruption
from quarterdeck.cluster.disruption.controller import disruption_controller
from quarterdeck.cluster.disruption.stalecondition import stale_disruption_controller
from quarterdeck.cluster.endpoints.controller import endpoints_controller
from quarterdeck.cluster.endpoints.mirrorcontroller import mirroring_controller
from quarterdeck.cluster.endpoints.slicecontroller import endpointslice_controller
from quarterdeck.cluster.job.backoff import JobSettings
from quarterdeck.cluster.job.controller import job_controller
from quarterdeck.cluster.job.orphan import orphan_pod_controller
from quarterdeck.cluster.job.ttl import ttl_controller
from quarterdeck.cluster.node import kubelet
from quarterdeck.cluster.node.kubelet import Kubelet
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.node.registration import NodeRegistration
from quarterdeck.cluster.nodehealth import controller as nodehealth
from quarterdeck.cluster.nodehealth import eviction
from quarterdeck.cluster.nodehealth.controller import node_lifecycle_controller
from quarterdeck.cluster.nodehealth.eviction import taint_eviction_controller
from quarterdeck.cluster.nodehealth.ttl import ttl_controller as node_ttl_controller
from quarterdeck.cluster.placement import controller as placement
from quarterdeck.cluster.placement.controller import SchedulerSettings
from quarterdeck.cluster.podgc import pod_gc_controller
from quarterdeck.cluster.replicaset.controller import replicaset_controller, replication_controller
from quarterdeck.cluster.resourceclaim import controller as resourceclaim
from quarterdeck.cluster.resourceclaim.controller import resource_claim_controller
from quarterdeck.cluster.resourceclaim.devices import simulated_device_controller
from quarterdeck.cluster.stage.refusal import refusal_controller
from quarterdeck.cluster.statefulset.controller import statefulset_controller
from quarterdeck.cluster.volume import binder, provisioner
from quarterdeck.cluster.volume.binder import volume_binder_controller
from quarterdeck.cluster.volume.ephemeral import ephemeral_volume_controller
from quarterdeck.cluster.volume.expand import volume_expand_controller
from quarterdeck.cluster.volume.provisioner import simulated_provisioner
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.manager.manager import Manager

AddController = Callable[[Controller[Any]], None]


@dataclass(frozen=True, kw_only=True)
class Workloads:
    """Which parts run; a kubelet runs pods on simulated nodes whoever made those."""

    sets: bool = True
    """Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, and their autoscaling."""
    budgets: bool = True
    """PodDisruptionBudgets."""
    services: bool = True
    """Endpoints and EndpointSlices."""
    node_health: bool = True
    """Nodes that are not heard of lose their pods."""
    volumes: bool = True
    """Claims get their volumes, those of the simulated provisioner included."""
    storage_class: str = ""
    """A default class of that provisioner, made where the cluster has no class at all."""
    devices: bool = True
    """Claims for devices, and those of simulated nodes."""
    jobs: JobSettings | None = field(default_factory=JobSettings)
    scheduler: SchedulerSettings | None = field(default_factory=SchedulerSettings)
    kubelet: Kubelet | None = field(default_factory=Kubelet)
    nodes: NodeSettings = field(default_factory=NodeSettings)

    def add_to(self, manager: Manager, add: AddController | None = None) -> NodeRegistration:
        """Add the controllers to a manager that has not started; returns what makes the nodes.

        ``add`` takes each controller in place of the manager, and may leave it out.
        """
        add = add if add is not None else manager.add
        if self.sets:
            add(deployment_controller())
            add(replicaset_controller())
            add(replication_controller())
            add(statefulset_controller())
            add(daemonset_controller())
            add(autoscaling_controller())
        if self.budgets:
            add(disruption_controller(manager.recorder(disruption.NAME)))
            add(stale_disruption_controller())
        if self.services:
            add(endpoints_controller())
            add(endpointslice_controller())
            add(mirroring_controller())
        if self.node_health:
            add(node_lifecycle_controller(manager.recorder(nodehealth.EVENT_SOURCE)))
            add(taint_eviction_controller(manager.recorder(eviction.NAME)))
            add(node_ttl_controller())
        if self.volumes:
            add(volume_binder_controller(manager.recorder(binder.EVENT_SOURCE)))
            add(ephemeral_volume_controller())
            add(volume_expand_controller())
            provision = manager.recorder(provisioner.NAME)
            add(simulated_provisioner(provision, default_class=self.storage_class))
        if self.devices:
            add(resource_claim_controller(manager.recorder(resourceclaim.EVENT_SOURCE)))
            add(simulated_device_controller())
        if self.jobs is not None:
            add(job_controller(self.jobs))
            add(orphan_pod_controller())
            add(ttl_controller())
            add(cronjob_controller())
        if self.scheduler is not None:
            add(placement.scheduler_controller(self.scheduler, manager.recorder(placement.NAME)))
        if self.kubelet is not None:
            add(self.kubelet.controller(manager.recorder(kubelet.EVENT_SOURCE)))
            add(refusal_controller(manager.recorder(kubelet.EVENT_SOURCE)))
            add(pod_gc_controller())
        registration = NodeRegistration(self.nodes)
        if self.nodes.total or self.kubelet is not None:
            add(registration.controller())
        return registration
