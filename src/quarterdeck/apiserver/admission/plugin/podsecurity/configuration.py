"""What can be set about PodSecurity: levels where a namespace has no labels, and who is not looked at.

The file is kube-apiserver's: an AdmissionConfiguration with the configuration of plugins, inline. Of the
plugins that are here, only this one has any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import yaml

from quarterdeck.errors import QuarterdeckError

from .level import LATEST, LevelVersion, Policy, minor_of

_NAME: Final = "PodSecurity"
Level = Literal["privileged", "baseline", "restricted"]


class ConfigurationError(QuarterdeckError, ValueError):
    """A configuration file that cannot be used."""


class _Defaults(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    enforce: Level = "privileged"
    enforce_version: str = "latest"
    audit: Level = "privileged"
    audit_version: str = "latest"
    warn: Level = "privileged"
    warn_version: str = "latest"


class Exemptions(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Who is not looked at."""

    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class PodSecurityConfiguration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The configuration of the plugin."""

    api_version: str = "pod-security.admission.config.k8s.io/v1"
    kind: Literal["PodSecurityConfiguration"] = "PodSecurityConfiguration"
    defaults: _Defaults = _Defaults()
    exemptions: Exemptions = Exemptions()

    def policy(self) -> Policy:
        """What holds where a namespace says nothing; raises ConfigurationError."""
        given = self.defaults
        return Policy(
            LevelVersion(given.enforce, _minor(given.enforce_version, "enforce-version")),
            LevelVersion(given.audit, _minor(given.audit_version, "audit-version")),
            LevelVersion(given.warn, _minor(given.warn_version, "warn-version")),
        )


def _minor(text: str, field: str) -> int:
    minor = LATEST if text == "latest" else minor_of(text)
    if minor is None:
        raise ConfigurationError(f'defaults.{field}: "{text}" must be "latest" or "v1.x"')
    return minor


class _Plugin(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    configuration: dict[str, Any] | None = None
    path: str = ""


class _File(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    api_version: Literal["apiserver.config.k8s.io/v1"]
    kind: Literal["AdmissionConfiguration"]
    plugins: list[_Plugin] = []


def load_configuration(path: Path) -> PodSecurityConfiguration:
    """Read an AdmissionConfiguration; raises ConfigurationError, which names the file."""
    try:
        document = msgspec.convert(yaml.safe_load(path.read_text()), _File)
        found = PodSecurityConfiguration()
        for plugin in document.plugins:
            if plugin.name != _NAME:
                raise ConfigurationError(f"plugin {plugin.name} has no configuration here, only {_NAME} has")
            if plugin.path:
                raise ConfigurationError(f"plugin {_NAME}: put its configuration here instead of a path")
            found = msgspec.convert(plugin.configuration or {}, PodSecurityConfiguration)
        found.policy()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, msgspec.ValidationError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return found
