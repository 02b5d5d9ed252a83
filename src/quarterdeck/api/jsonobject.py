"""The type of a JSON object as it was read: a plain dict, which its owner may change."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
