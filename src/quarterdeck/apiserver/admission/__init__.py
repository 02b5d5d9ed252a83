"""Admission: what may change or refuse a write between decoding and storing it.

`chain` is what a write goes through.
"""

from .attributes import Attributes, Decision, GroupVersionKind, GroupVersionResource, Host, Served
from .chain import AdmissionChain

__all__ = [
    "AdmissionChain",
    "Attributes",
    "Decision",
    "GroupVersionKind",
    "GroupVersionResource",
    "Host",
    "Served",
]
