"""Kubernetes' own Conformance suite: which of its specs are run, how, and against what they are held.

suite       lists, chooses and runs specs
kubelet     a Node that is always ready, and pods that run without containers
skipped.json    the specs that are left out, by reason
reference.json  the specs that pass on the real kube-apiserver with kube-controller-manager
"""
