"""PodSecurity: the Pod Security Standards, by labels of the namespace.

`level` reads the labels, `check` holds the single checks, `catalog` says which count for which level and
version, `plugin` is the admission plugin.
"""

from .plugin import Exemptions, PodSecurity

__all__ = ["Exemptions", "PodSecurity"]
