"""PodSecurity: the Pod Security Standards, by labels of the namespace.

`level` reads the labels, `configuration` what is set for the server, `check` holds the single checks,
`catalog` says which count for which level and version, `plugin` is the admission plugin.
"""

from .configuration import ConfigurationError, Exemptions, PodSecurityConfiguration, load_configuration
from .plugin import PodSecurity

__all__ = [
    "ConfigurationError",
    "Exemptions",
    "PodSecurity",
    "PodSecurityConfiguration",
    "load_configuration",
]
