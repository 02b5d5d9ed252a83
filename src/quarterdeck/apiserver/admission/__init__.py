"""Admission: what may change or refuse a write between decoding and storing it.

`chain` is the door; `policyvalidation.policy_errors` checks the configurations themselves.
"""

from .attributes import Attributes, Decision, GroupVersionKind, GroupVersionResource, Host, Served
from .chain import AdmissionChain
from .policyvalidation import policy_errors

__all__ = [
    "AdmissionChain",
    "Attributes",
    "Decision",
    "GroupVersionKind",
    "GroupVersionResource",
    "Host",
    "Served",
    "policy_errors",
]
