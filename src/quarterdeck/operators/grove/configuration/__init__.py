"""The operator's configuration: its document, how it is read, what is checked."""

from .document import Level, OperatorConfiguration, Profile, SchedulerConfiguration
from .loading import effective_document, load_configuration, load_file
from .validation import Schedulers

__all__ = [
    "Level",
    "OperatorConfiguration",
    "Profile",
    "SchedulerConfiguration",
    "Schedulers",
    "effective_document",
    "load_configuration",
    "load_file",
]
