"""From a pod and its owners to the PodGroup it belongs to.

``workload`` is what is known of a pod, ``registry`` finds the grouper of its top owner, a grouper makes a
``plan``, and ``podgroup`` says what to write. Reading the cluster is the controller's part.
"""

from .default import group_name
from .plan import GroupingError, GroupPlan, SubGroupPlan
from .podgroup import changed_pod_group, new_pod_group, pod_patch
from .registry import Grouper, GrouperRegistry, Known, default_registry
from .workload import KindDefault, Reference, Workload, parse_kind_defaults

__all__ = [
    "GroupPlan",
    "Grouper",
    "GrouperRegistry",
    "GroupingError",
    "KindDefault",
    "Known",
    "Reference",
    "SubGroupPlan",
    "Workload",
    "changed_pod_group",
    "default_registry",
    "group_name",
    "new_pod_group",
    "parse_kind_defaults",
    "pod_patch",
]
