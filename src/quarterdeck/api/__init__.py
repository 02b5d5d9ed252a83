"""What objects are: types, values, names, and how a class becomes a CRD.

This room talks to nobody. It holds the typed object model (``Model``, ``Resource``), dynamic and
metadata-only objects, the value types of the API (quantities, times, durations, selectors), helpers for
conditions, owners and finalizers, and the generator of custom resource definitions. The built-in kinds
of Kubernetes are in ``quarterdeck.api.k8s``.

Here are the names that most programs use; the rest is imported from its module: rules of fields (``Ge``,
``Len``, ``Cel``, ``ListMap`` …) from ``marker``, ``find_condition`` and its like from ``condition``,
finalizers from ``finalizer``, sums of quantities from ``quantity``, checks of names from ``label``.
"""

from quarterdeck.api.codec import decode, encode, from_dict, to_dict
from quarterdeck.api.crd import crd
from quarterdeck.api.duration import Duration
from quarterdeck.api.dynamic import DynamicObject, PartialObjectMetadata
from quarterdeck.api.instant import Time
from quarterdeck.api.kind import GroupVersionKind, Key
from quarterdeck.api.meta import Condition, LabelSelector, ObjectMeta, OwnerReference
from quarterdeck.api.model import UNSET, Map, Maybe, Model, Seq, UnsetType, omitempty, value_or
from quarterdeck.api.owner import controller_of, is_controlled_by, owner_reference, set_controller_reference
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Column, Resource, Writable
from quarterdeck.api.scheme import Scheme
from quarterdeck.api.selector import Selector

__all__ = [
    "UNSET",
    "Column",
    "Condition",
    "Duration",
    "DynamicObject",
    "GroupVersionKind",
    "Key",
    "LabelSelector",
    "Map",
    "Maybe",
    "Model",
    "ObjectMeta",
    "OwnerReference",
    "PartialObjectMetadata",
    "Quantity",
    "Resource",
    "Scheme",
    "Selector",
    "Seq",
    "Time",
    "UnsetType",
    "Writable",
    "controller_of",
    "crd",
    "decode",
    "encode",
    "from_dict",
    "is_controlled_by",
    "omitempty",
    "owner_reference",
    "set_controller_reference",
    "to_dict",
    "value_or",
]
