"""What `kubectl explain` says about object metadata, which every kind has.

Other built-in fields carry no descriptions.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json

OBJECT_META: Final = {
    "annotations": "Annotations hold data of tools and libraries; selectors cannot use them.",
    "creationTimestamp": "CreationTimestamp is a timestamp of the server: when it made the object, in UTC.",
    "deletionGracePeriodSeconds": "Seconds between the start of the deletion and the removal of the object.",
    "deletionTimestamp": "DeletionTimestamp is the time by which the object should be gone; set when a "
    "deletion starts, and never removed.",
    "finalizers": "The object stays while this list has entries; each is removed by whoever added it.",
    "generateName": "GenerateName is a prefix; the server appends a random suffix if name is empty.",
    "generation": "A number that grows with every change of the desired state.",
    "labels": "Labels sort objects into groups that selectors can choose.",
    "managedFields": "ManagedFields says which client set which field; the server keeps it for apply.",
    "name": "Name of the object, unique among those of its kind in its namespace. It cannot be changed.",
    "namespace": "Namespace within which the name is unique. It cannot be changed.",
    "ownerReferences": "Objects this one depends on; when all are gone, this one is collected. At most one "
    "of them is its controller.",
    "resourceVersion": "A text that differs between any two states of the object: for watches, and to see "
    "that somebody else has changed it.",
    "selfLink": "SelfLink is no longer set by the server.",
    "uid": "UID of this object, different from that of every other object, past or future.",
}


def describe_metadata(schema: Json) -> None:
    """Add the descriptions to the schema of ObjectMeta."""
    properties = schema["properties"]
    for name, text in OBJECT_META.items():
        field = properties[name]
        if "$ref" in field:  # a reference allows nothing beside it
            field = {"allOf": [field]}
        properties[name] = {"description": text, **field}
