"""What objects count for in a ResourceQuota: pure functions on plain documents, no I/O.

    evaluator = evaluator_of("", "pods")
    names = evaluator.tracked(quota["status"]["hard"])
    if evaluator.matches(quota, pod):
        used = evaluator.usage(pod, now)

The API server charges objects with it before it stores them, the quota controller counts what is there.

    amount       lists of resources: name -> quantity
    evaluator    what is common: scopes, names, the counting of any kind
    pod          compute resources, and the scopes that choose pods
    service      node ports and load balancers
    volume       storage of claims, by class as well
    device       devices of resource claims, by class
    registry     which evaluator counts which resource
"""

from quarterdeck.api.quota.amount import Amounts, amounts_of, mask, to_text
from quarterdeck.api.quota.evaluator import Evaluator, Operation, count_name, scope_selectors
from quarterdeck.api.quota.pod import pod_requests
from quarterdeck.api.quota.registry import SPECIAL_RESOURCES, evaluator_of, is_ignored

__all__ = [
    "SPECIAL_RESOURCES",
    "Amounts",
    "Evaluator",
    "Operation",
    "amounts_of",
    "count_name",
    "evaluator_of",
    "is_ignored",
    "mask",
    "pod_requests",
    "scope_selectors",
    "to_text",
]
