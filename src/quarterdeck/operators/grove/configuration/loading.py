"""Reading an OperatorConfiguration: decode, fill in, check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from quarterdeck.api import Duration
from quarterdeck.errors import ConfigError, reason_of
from quarterdeck.operators.grove import names
from quarterdeck.runtime.log import get_logger
from quarterdeck.wire.fielderror import joined_text

from .document import OperatorConfiguration, Profile
from .source import configuration_in
from .validation import Schedulers, check

_log: Final = get_logger(__name__)


def load_file(path: Path, schedulers: Schedulers) -> OperatorConfiguration:
    """The configuration in a YAML or JSON file, see ``source``; raises ``ConfigError``."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {reason_of(error)}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected an {names.CONFIG_KIND}")
    return load_configuration(configuration_in(document), schedulers)


def load_configuration(
    document: Mapping[str, Any], schedulers: Schedulers, *, refuses_unknown: bool = False
) -> OperatorConfiguration:
    """The configuration of a document, complete and checked; raises ``ConfigError`` with all complaints.

    Fields that are not known are skipped, as upstream skips them in its file, or refused.
    """
    document = _without_nulls(document)
    try:
        read = msgspec.convert(document, OperatorConfiguration, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"cannot read the {names.CONFIG_KIND}: {reason_of(error)}") from error
    if (read.api_version, read.kind) != (names.CONFIG_API_VERSION, names.CONFIG_KIND):
        raise ConfigError(
            f'no kind "{read.kind}" is known for version "{read.api_version}", '
            f"expected {names.CONFIG_KIND} of {names.CONFIG_API_VERSION}"
        )
    unknown = [*_unknown_fields(document, OperatorConfiguration, "")]
    if unknown and refuses_unknown:
        raise ConfigError(f"unknown fields: {', '.join(unknown)}")
    for path in unknown:
        _log.warning("the configuration has a field that is not known", field=path)
    configuration = _completed(read)
    schedulers.restrict(read.scheduler_plugins.allowed)
    errors = check(configuration, schedulers, is_named="schedulerName" in document)
    if errors:
        raise ConfigError(joined_text(errors))
    return configuration


def effective_document(configuration: OperatorConfiguration) -> dict[str, Any]:
    """The configuration as a document again, everything filled in."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(configuration, enc_hook=_encode))
    return document


def _completed(read: OperatorConfiguration) -> OperatorConfiguration:
    scheduler = read.scheduler
    if scheduler is None:
        return msgspec.structs.replace(read, scheduler_name=read.scheduler_name or names.DEFAULT_SCHEDULER)
    profiles = scheduler.profiles
    if all(profile.name != names.DEFAULT_SCHEDULER for profile in profiles):
        profiles = (*profiles, Profile(name=names.DEFAULT_SCHEDULER))
    default = scheduler.default_profile_name or names.DEFAULT_SCHEDULER
    completed = msgspec.structs.replace(scheduler, profiles=profiles, default_profile_name=default)
    return msgspec.structs.replace(read, scheduler=completed, scheduler_name=read.scheduler_name or default)


def _without_nulls(value: Any) -> Any:
    """The same without fields that are there and say nothing: they are as good as absent."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _decode(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration.from_wire(value)
    raise NotImplementedError(f"{kind} cannot be read")


def _encode(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    return dict(value)


def _unknown_fields(document: Any, kind: Any, path: str) -> Iterator[str]:
    """The paths of fields that no section has."""
    if isinstance(document, list):
        inner = next((each for each in get_args(kind) if _is_section(each)), None)
        for index, each in enumerate(document):
            yield from _unknown_fields(each, inner, f"{path}[{index}]")
        return
    if get_origin(kind) in (Union, UnionType):
        kind = next((each for each in get_args(kind) if _is_section(each)), None)
    if not isinstance(document, dict) or not _is_section(kind):
        return
    hints = get_type_hints(kind)
    fields = {info.encode_name: hints[info.name] for info in msgspec.structs.fields(kind)}
    for key, value in document.items():
        at = f"{path}.{key}" if path else str(key)
        if key not in fields:
            yield at
        else:
            yield from _unknown_fields(value, fields[key], at)


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
