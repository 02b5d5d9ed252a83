"""The patch formats other than apply: JSON patch, merge patch, strategic merge patch.

All work on decoded JSON, change neither the document nor the patch they are given, behave as the libraries
that Kubernetes uses, and raise ``PatchError`` for what cannot be applied.
"""

from .error import MalformedDirective, NestedList, OperationFailed, TestFailed
from .jsonpatch import Operation, apply_json_patch, json_patch
from .mergepatch import apply_merge_patch, merge_patch
from .strategic import FieldRule, MergeSchema, strategic_merge

__all__ = [
    "FieldRule",
    "MalformedDirective",
    "MergeSchema",
    "NestedList",
    "Operation",
    "OperationFailed",
    "TestFailed",
    "apply_json_patch",
    "apply_merge_patch",
    "json_patch",
    "merge_patch",
    "strategic_merge",
]
