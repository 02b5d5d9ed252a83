"""What `quarterdeck new` writes."""

from .files import Names, kind_files, kind_module, project_files, version_files, webhook_files, with_part

__all__ = [
    "Names",
    "kind_files",
    "kind_module",
    "project_files",
    "version_files",
    "webhook_files",
    "with_part",
]
