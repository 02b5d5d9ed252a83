"""The names other packages may rely on."""

from __future__ import annotations

import quarterdeck.cel as cel


def test_the_public_names_are_these() -> None:
    assert set(cel.__all__) == {
        "AUTHORIZER",
        "BOOL",
        "BYTES",
        "DOUBLE",
        "DURATION",
        "DYN",
        "INT",
        "NULL",
        "RESOURCE_CHECK",
        "STRING",
        "TIMESTAMP",
        "UINT",
        "Attributes",
        "Authorizer",
        "AuthorizerValue",
        "CelCompileError",
        "CelRuntimeError",
        "CelType",
        "CostLimitExceeded",
        "Duration",
        "Environment",
        "MutationTypes",
        "OptionalValue",
        "Program",
        "ProgramError",
        "ResourceCheck",
        "StructValue",
        "Structs",
        "Timestamp",
        "UInt",
        "escape_name",
        "list_type",
        "map_type",
        "object_type",
        "optional_type",
        "type_from_schema",
    }
    assert all(hasattr(cel, name) for name in cel.__all__)
