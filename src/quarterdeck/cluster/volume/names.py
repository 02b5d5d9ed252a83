"""Names around claims and volumes on the wire."""

from __future__ import annotations

from typing import Final

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
OLD_DEFAULT_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"

STORAGE: Final = "storage"
"""The resource that claims ask for."""
WAITS: Final = "WaitForFirstConsumer"
"""Binding mode of classes whose claims wait for a pod with a node."""
IN_TREE: Final = "kubernetes.io/"
"""Provisioners of these names were part of Kubernetes; none of them is left here."""

SIMULATED_PROVISIONER: Final = "simulated.quarterdeck.dev"
"""Provisioner, and CSI driver, of volumes that exist on paper only."""
