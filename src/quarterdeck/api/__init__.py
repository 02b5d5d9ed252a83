"""What objects are: types, values, names, and how a class becomes a CRD.

This room talks to nobody. It holds the typed object model (``Model``, ``Resource``), dynamic and
metadata-only objects, the value types of the API (quantities, times, durations, selectors), helpers for
conditions, owners and finalizers, and the generator of custom resource definitions. The built-in kinds
of Kubernetes are in ``quarterdeck.api.k8s``.

Here are the names that most programs use; the rest is imported from its module: rules of fields (``Ge``,
``Len``, ``Cel``, ``ListMap`` …) from ``marker``, ``find_condition`` and its like from ``condition``,
finalizers from ``finalizer``, sums of quantities from ``quantity``, checks of names from ``label``.
"""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
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

if not TYPE_CHECKING:
    __getattr__ = _moved_names(
        __name__,
        {
            "api.childname": "child_name",
            "api.codec": "decode_json",
            "api.condition": "ConditionStatus Conditions find_condition is_condition_false is_condition_true",
            "api.crd": "WebhookConversion",
            "api.crdcompat": "Incompatibility compare_crds",
            "api.crdimport": "module_from_crd",
            "api.draft": "Draft",
            "api.finalizer": "add_finalizer finalizer_patch has_finalizer remove_finalizer",
            "api.frozen": "FrozenMap JsonObject MapView SeqView freeze thaw",
            "api.instant": "MicroTime OptionalMicroTime OptionalTime",
            "api.intorstring": "IntOrString resolve_percent",
            "api.kind": "GroupKind GroupVersion GroupVersionResource",
            "api.label": (
                "check_dns1035_label check_dns1123_label check_dns1123_subdomain check_label_value "
                "check_qualified_name"
            ),
            "api.marker": (
                "AllOf AnyOf Atomic Cel Default Doc Embedded Enum Format Ge Gt Int32 Int64 Le Len ListMap "
                "ListSet Lt MultipleOf Not Nullable OneOf Optional Pattern Preserve Required Schema Unique"
            ),
            "api.meta": (
                "DeleteOptions LabelSelectorRequirement ListMeta ManagedFieldsEntry Preconditions Status "
                "StatusCause StatusDetails"
            ),
            "api.model": "EMPTY_MAP JsonField JsonObjectField field",
            "api.naming": "to_python to_wire",
            "api.owner": "check_owner remove_owner_reference set_owner_reference",
            "api.quantity": "QuantityFormat max_quantities sum_quantities",
            "api.resource": "ObjectList ResourceInfo Scale Scope",
            "api.schema": "schema_of",
            "api.selector": "FieldSelector FieldTerm Operator Requirement",
        },
    )
