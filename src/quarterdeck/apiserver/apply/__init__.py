"""Server-side apply and metadata.managedFields.

FieldManager       what the server calls on every write
restore_times      whether a write is a no-op
builtin_model, custom_model    type models for it
resetfields, scale             what status and scale writes need besides
"""

from .manager import FieldManager, restore_times
from .model import builtin_model, custom_model
from .typed import TypeModel

__all__ = ["FieldManager", "TypeModel", "builtin_model", "custom_model", "restore_times"]
