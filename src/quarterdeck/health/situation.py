"""Every situation that health knows: how bad it is, what it means, and what to do.

Names are stable: alerts and scripts may match on them. ``{object}`` in a remedy is the object as kubectl
takes it (``pod/a -n team``), ``{name}`` and ``{namespace}`` are its parts, ``{about}`` is what the finding
names.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .problem import Severity


class Situation(NamedTuple):
    """How bad it is, what it means, what to do."""

    severity: Severity
    meaning: str
    remedy: str


_DESCRIBE: Final = "kubectl describe {object}"
_EXPLAIN: Final = "quarterdeck scheduler explain podgroup {namespace}/{name} says what would start it"

SITUATIONS: Final[dict[str, Situation]] = {
    # what the observer itself sees
    "api-unreachable": Situation(
        "critical",
        "the API server does not answer",
        "look at the server and the network between; what is shown is the state before",
    ),
    "credentials-refused": Situation(
        "critical",
        "the API server does not accept the credentials",
        "renew the credentials of the kubeconfig, then start this again",
    ),
    "data-stale": Situation(
        "warning",
        "a kind is no longer followed, so what is shown of it is old",
        "look at the API server and the network between",
    ),
    "may-not-read": Situation(
        "warning",
        "a kind may not be read, so its troubles are not known",
        "ask for the permission to list and watch {about}",
    ),
    "definition-missing": Situation(
        "critical",
        "an operator's other kinds are installed, and this one is not",
        "install the definition: quarterdeck manifests prints it",
    ),
    # nodes
    "node-not-ready": Situation("critical", "a node says that it is not ready", _DESCRIBE),
    "node-silent": Situation(
        "critical",
        "a node has stopped reporting",
        "look at the machine and its kubelet; its pods are moved after their toleration ends",
    ),
    "node-memory-pressure": Situation(
        "warning", "a node is short of memory and evicts pods", "kubectl top pods -A --sort-by=memory"
    ),
    "node-disk-pressure": Situation(
        "warning", "a node is short of disk space and evicts pods", "free space on {name}"
    ),
    "node-pid-pressure": Situation(
        "warning", "a node is short of process numbers", "find the pod on {name} that starts so many"
    ),
    "node-network-unavailable": Situation(
        "critical", "the network of a node is not set up", "look at the network plugin's pod on {name}"
    ),
    "node-gpus-missing": Situation(
        "warning",
        "a node has GPUs that cannot be used",
        "look at the device plugin's pod and the driver's log on {name}",
    ),
    "node-cordoned": Situation("notice", "a node takes no new pods", "kubectl uncordon {name}, when it may"),
    # pods that were placed
    "pod-crash-loop": Situation(
        "critical", "a container ends again and again", "kubectl logs {object} -c {about} --previous"
    ),
    "pod-image": Situation(
        "critical", "an image cannot be pulled", "mend the name or the pull secret, then delete the pod"
    ),
    "pod-configuration": Situation(
        "critical", "a container cannot be made as the pod asks for it", _DESCRIBE
    ),
    "pod-starting": Situation("warning", "a container has not started for minutes", _DESCRIBE),
    "pod-restarting": Situation(
        "warning",
        "a container was restarted lately, and not for the first time",
        "kubectl logs {object} -c {about} --previous",
    ),
    "pod-out-of-memory": Situation(
        "warning", "a container was killed for the memory it used", "raise its memory limit, or use less"
    ),
    "pod-not-ready": Situation("warning", "a pod runs and has not been ready for minutes", _DESCRIBE),
    "pod-failed": Situation("warning", "a pod that nothing starts again has failed", "kubectl logs {object}"),
    "pod-evicted": Situation(
        "warning", "a pod was evicted by its node", "see the node's conditions; the pod can be deleted"
    ),
    "pod-terminating": Situation(
        "warning",
        "a pod should be gone and is not",
        "see that its node lives and its finalizers are served; else kubectl delete {object} --force",
    ),
    # pods that wait
    "pod-gated": Situation(
        "warning", "nobody has lifted a scheduling gate", "see that the controller which sets {about} runs"
    ),
    "pod-unseen": Situation(
        "warning",
        "no scheduler has looked at a pod",
        "see that a scheduler called {about} runs, or name another in schedulerName",
    ),
    "pod-binding-failed": Situation(
        "warning", "a pod was promised a node and could not be bound to it", _DESCRIBE
    ),
    "no-node-fits": Situation(
        "critical",
        "no node has, even empty, what one pod asks for",
        "ask for less, or add nodes that have it",
    ),
    "waits-for-gpus": Situation("warning", "too few free GPUs", "wait, free some, or add nodes with GPUs"),
    "waits-for-cpu": Situation("warning", "too little free CPU", "wait, free some, or add nodes"),
    "waits-for-memory": Situation("warning", "too little free memory", "wait, free some, or add nodes"),
    "waits-for-resource": Situation(
        "warning", "too little of another resource", "wait, free some, or add nodes that have it"
    ),
    "waits-for-pod-slots": Situation(
        "warning", "nodes have as many pods as they take", "raise maxPods of the kubelet, or add nodes"
    ),
    "waits-for-toleration": Situation(
        "warning", "nodes have taints that the pod does not tolerate", "tolerate the taint, or remove it"
    ),
    "waits-for-labels": Situation(
        "warning", "no node has the labels that the pod selects", "label a node, or mend the selector"
    ),
    "waits-for-pod-affinity": Situation(
        "warning", "no node satisfies rules about other pods", "relax the affinity, or add nodes"
    ),
    "waits-for-spread": Situation(
        "warning", "no node satisfies a spread constraint", "relax maxSkew, or add nodes in the other domains"
    ),
    "waits-for-volume": Situation(
        "warning", "a volume is not there, or is elsewhere", "kubectl get pvc -n {namespace}"
    ),
    "waits-for-port": Situation(
        "warning", "the host ports are taken on every node", "use a Service instead of a host port"
    ),
    "waits-for-uncordon": Situation(
        "warning", "nodes take no new pods", "kubectl uncordon the nodes, when they may"
    ),
    "waits-for-devices": Situation(
        "warning", "devices that the pod claims are not free", "kubectl get resourceclaims -n {namespace}"
    ),
    "waits-for-nodes": Situation("critical", "the cluster has no node to place pods on", "add nodes"),
    "waits": Situation("warning", "a scheduler has no place for the pod", _DESCRIBE),
    # gangs and queues
    "gang-over-limit": Situation(
        "warning",
        "the queue of a gang is at its limit",
        "wait for others of queue {about}, or raise its limit",
    ),
    "gang-over-quota": Situation(
        "warning",
        "a gang that may not be evicted must fit its queue's quota, and does not",
        "raise the quota of queue {about}, or make the gang preemptible",
    ),
    "gang-waits": Situation("warning", "a gang waits for room", _EXPLAIN),
    "gang-below-minimum": Situation(
        "critical",
        "fewer pods of a gang run than it needs to work",
        "kubectl get pods -n {namespace} -o wide",
    ),
    "gang-evicted": Situation("warning", "the scheduler took the GPUs of a gang for another one", _EXPLAIN),
    "queue-missing": Situation(
        "critical",
        "a gang names a queue that does not exist",
        "create queue {about}, or set the label kai.scheduler/queue to one that exists: kubectl get queues",
    ),
    "queue-parent-missing": Situation(
        "critical",
        "a queue's parent does not exist, so nothing of it starts",
        "create queue {about}, or mend spec.parentQueue",
    ),
    "queue-at-limit": Situation(
        "warning", "a queue has all it may have and more is asked for", "wait, or raise the limit of {name}"
    ),
    "bind-request-failed": Situation("warning", "the binder gave up on a pod", _DESCRIBE),
    # work
    "job-failed": Situation("critical", "a Job has failed", "kubectl logs {object}"),
    "job-back-off": Situation(
        "warning", "pods of a Job have failed or were evicted and none runs", "kubectl describe {object}"
    ),
    "jobset-failed": Situation("critical", "a JobSet has failed", _DESCRIBE),
    "jobset-restarted": Situation("warning", "a JobSet was started again after a failure", _DESCRIBE),
    "trainjob-failed": Situation("critical", "a training has failed", "kubectl describe {object}"),
    "trainjob-refused": Situation(
        "critical", "a training cannot start with the runtime it names", "kubectl describe {object}"
    ),
    "name-taken": Situation(
        "critical",
        "what an operator would make has the name of somebody else's object",
        "rename this object, or delete the other one",
    ),
    "deployment-unavailable": Situation("critical", "no pod of a workload is available", _DESCRIBE),
    "deployment-degraded": Situation(
        "warning", "fewer pods of a workload are available than wanted", _DESCRIBE
    ),
    "deployment-stalled": Situation(
        "critical", "an update makes no progress", "kubectl rollout undo {object}, or mend the template"
    ),
    "pods-refused": Situation(
        "critical", "a controller may not create the pods it should", "kubectl describe {object}"
    ),
    "volume-claim-lost": Situation("critical", "the volume of a claim is gone", _DESCRIBE),
    "volume-claim-pending": Situation("warning", "a volume has not been provided for minutes", _DESCRIBE),
    "quota-used-up": Situation(
        "warning", "a ResourceQuota leaves nothing of a resource", "delete something, or raise {object}"
    ),
    # inference services
    "service-unavailable": Situation(
        "critical", "no replica of an inference service is available", _DESCRIBE
    ),
    "service-degraded": Situation(
        "warning", "fewer replicas of an inference service are available than wanted", _DESCRIBE
    ),
    "minimum-breached": Situation(
        "critical", "fewer pods of a role are there than it needs", "kubectl describe {object}"
    ),
    "gang-termination": Situation(
        "warning", "a replica that was short of pods for too long is started anew", _DESCRIBE
    ),
    "update-stalled": Situation("warning", "an update has gone on for too long", _DESCRIBE),
    "reconcile-failed": Situation(
        "warning", "an operator reports an error about an object", "kubectl describe {object}"
    ),
    "topology-unavailable": Situation(
        "critical", "levels of a topology that a service asks for are not there", _DESCRIBE
    ),
    # addresses
    "pool-exhausted": Situation(
        "critical", "a pool has no free block", "delete claims that are not used, or add a pool"
    ),
    "pool-inconsistent": Situation(
        "critical", "blocks of a pool contradict each other", "quarterdeck check ipam names them"
    ),
    "claim-error": Situation("critical", "a claim cannot be served", _DESCRIBE),
    "claim-pending": Situation("warning", "a claim has not been served for a minute", _DESCRIBE),
    "subnet-failed": Situation(
        "critical",
        "a block could not be allocated",
        "delete {object} and claim again; quarterdeck check ipam",
    ),
    "deletion-blocked": Situation(
        "warning", "an object should be gone and others still need it", "kubectl describe {object}"
    ),
    # node groups
    "nodegroup-not-synced": Situation(
        "warning", "the configuration of a node group was not taken over", _DESCRIBE
    ),
    "nodegroup-error": Situation("critical", "a node group cannot get what it asks for", _DESCRIBE),
    "nodegroup-below-minimum": Situation(
        "critical", "fewer nodes of a group are ready than its minimum", "kubectl get nodes"
    ),
    "nodegroup-outdated": Situation(
        "notice", "nodes of a group do not have the newest configuration yet", _DESCRIBE
    ),
    "machine-failed": Situation("warning", "the last machines of a node group failed", _DESCRIBE),
    # the control plane
    "webhook-unreachable": Situation(
        "critical",
        "a webhook has nothing behind its Service, and requests are refused without it",
        "start the pods behind service {about}, or delete {object}",
    ),
    "webhook-ignored": Situation(
        "warning",
        "a webhook has nothing behind its Service, and is left out",
        "start the pods behind service {about}, or delete {object}",
    ),
    "webhook-failing": Situation(
        "critical", "requests fail because a webhook does", "look at the pods behind the webhook"
    ),
    "certificate-expired": Situation(
        "critical",
        "what proves a webhook's identity is no longer valid",
        "restart the operator that renews it",
    ),
    "certificate-expiring": Situation(
        "warning", "what proves a webhook's identity is soon no longer valid", "see that its operator runs"
    ),
    "not-leading": Situation(
        "critical",
        "nobody leads: the controllers behind a Lease do nothing",
        "start them, or delete {object}",
    ),
    "definition-refused": Situation(
        "critical", "a definition is not served as it was written", "kubectl describe {object}"
    ),
    "namespace-terminating": Situation(
        "warning", "a namespace should be gone and something in it is not", "kubectl get {object} -o yaml"
    ),
}
