"""CEL, the expression language of validation rules, match conditions and admission policies.

`Environment.compile` turns an expression into a reusable `Program`; `type_from_schema` gives the types of
data described by an OpenAPI schema; `quarterdeck.cel.rule.rules` runs the x-kubernetes-validations of
CRDs. Evaluation is pure; `quarterdeck.wire.turn` keeps a long one from holding up the event loop.

From the bottom up; each imports only from those before it, as a contract in pyproject.toml holds:

    error, recursion      what goes wrong; how deep an expression may be
    value                 values and operators
    type                  types, and the shapes that schemas give to data
    syntax                from text to a tree
    estimate, declaration sizes and costs as ranges; what a function is
    library               the functions
    check                 types of a tree, and what no evaluation would accept
    cost                  what an evaluation costs, before and while it runs
    evaluation            from a tree to closures
    environment           all of that for one set of variables
    rule                  x-kubernetes-validations of a schema
"""

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
from quarterdeck.cel.type.celtype import (
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
    Structs,
    list_type,
    map_type,
    object_type,
    optional_type,
)
from quarterdeck.cel.type.schema import escape_name, type_from_schema
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
