"""CEL, the expression language of validation rules, match conditions and admission policies.

`Environment.compile` turns an expression into a reusable `Program`; `type_from_schema` gives the types of
data described by an OpenAPI schema; `quarterdeck.cel.rule.rules` runs the x-kubernetes-validations of
CRDs. Evaluation is pure; `turn` keeps a long one from holding up the event loop.
"""

from quarterdeck.cel.check.checker import Structs
from quarterdeck.cel.check.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_type,
    map_type,
    object_type,
    optional_type,
)
from quarterdeck.cel.environment import Environment, Program
from quarterdeck.cel.error import CelCompileError, CelRuntimeError, CostLimitExceeded, ProgramError
from quarterdeck.cel.library.authorizer import (
    AUTHORIZER,
    RESOURCE_CHECK,
    Attributes,
    Authorizer,
    AuthorizerValue,
    ResourceCheck,
)
from quarterdeck.cel.library.mutation import MutationTypes
from quarterdeck.cel.rule.schema import escape_name, type_from_schema
from quarterdeck.cel.value.value import Duration, OptionalValue, StructValue, Timestamp, UInt

__all__ = [
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
]
