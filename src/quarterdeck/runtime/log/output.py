"""Log lines: JSON in a cluster, colour on a terminal, secrets in neither.

The runtime logs through ``FieldLogger`` (a fixed event text, values as fields, the fields of the current task
added); any library may log through the standard ``logging`` module and gets those fields too. ``configure``
installs one handler that writes all of it::

    control = configure()                 # JSON, or console if the output is a terminal
    control.set_level("DEBUG")            # any time; set_level("DEBUG", "quarterdeck.client") for a part

Two rules hold for every line, whoever wrote it:

- **No secrets.** Authorization headers, bearer tokens, JSON web tokens, passwords and private keys are
  replaced in the finished line, tracebacks included. API objects are written as name and namespace, never
  as content.
- **No floods.** The same error about the same object is written once, then once a minute with a count.
"""

import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import msgspec

from quarterdeck.api import Key, Writable
from quarterdeck.runtime.log.field import current_fields
from quarterdeck.runtime.log.repeat import RepeatGuard

Format = Literal["auto", "json", "console"]
REDACTED: Final = "[redacted]"
_SECRET_KEYS: Final = (
    r"authorization|proxy-authorization|token|id_token|access_token|refresh_token|password|passwd|"
    r"client_secret|client-key-data|private_key|privatekey|ca\.key|tls\.key"
)
_SECRETS: Final = re.compile(
    rf"""
    (?P<pem> -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\Z) )
    | (?P<jwt> \beyJ[A-Za-z0-9_-]{{6,}}\.[A-Za-z0-9_-]{{6,}}\.[A-Za-z0-9_-]* )
    | (?P<key> (?<![A-Za-z0-9_.-])(?:{_SECRET_KEYS})\\?["']?\s*[:=]\s* )
      (?P<value> (?:Bearer|Basic)\s+[^\s,;"']+  # Authorization: Bearer …
        | \\"(?:[^"\\]|\\[^"])*\\"            # \"token\": \"…\", JSON inside of a JSON string
        | "(?:[^"\\]|\\.)*" | '[^']*'          # "token": "…"
        | [^\s,;}}"']+ )                        # token=…
    | (?P<scheme> \b(?:Bearer|Basic)\s+ )[A-Za-z0-9._~+/=-]{{6,}}
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def redact(text: str) -> str:
    """``text`` without secrets.

    >>> redact("Authorization: Bearer abc.def-123")
    'Authorization: [redacted]'
    >>> redact('{"user":"me","token":"s3cret"}')
    '{"user":"me","token":"[redacted]"}'
    """
    return _SECRETS.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    if match["scheme"]:
        return f"{match['scheme']}{REDACTED}"
    if match["key"]:
        value = match["value"]
        for quote in ('\\"', '"', "'"):
            if value.startswith(quote):
                return f"{match['key']}{quote}{REDACTED}{quote}"
        return f"{match['key']}{REDACTED}"
    return REDACTED


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``level``, ``ts``, ``logger``, ``msg``, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        document: dict[str, Any] = {
            "level": record.levelname.lower(),
            "ts": _timestamp(record.created),
            "logger": record.name,
            "msg": record.getMessage(),
            **_fields(record),
        }
        trace = _traceback(self, record)
        if trace:
            document["stacktrace"] = trace
        return redact(_json(document))


class ConsoleFormatter(logging.Formatter):
    """One readable line, then the traceback if there is one."""

    _COLOURS: Final = {"DEBUG": 36, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 35}

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour: Final = colour

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        level = record.levelname
        if self._colour:
            level = f"\x1b[{self._COLOURS.get(level, 0)}m{level}\x1b[0m"
        parts = [_timestamp(record.created), level, record.name, record.getMessage()]
        fields = _fields(record)
        if fields:
            parts.append(_json(fields))
        line = "\t".join(parts)
        trace = _traceback(self, record)
        return redact(f"{line}\n{trace}" if trace else line)


class RepeatFilter(logging.Filter):
    """Lets the first of equal errors pass, then one a minute with the number of those held back."""

    def __init__(self, guard: RepeatGuard | None = None) -> None:
        super().__init__()
        self._guard: Final = guard if guard is not None else RepeatGuard()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write a record."""
        if record.levelno < logging.ERROR:
            return True
        fields = getattr(record, "fields", None) or {}
        who = [str(fields.get(key, "")) for key in ("controller", "namespace", "name", "error")]
        held_back = self._guard.admit("\0".join([record.name, record.getMessage(), *who]), time.monotonic())
        if held_back is None:
            return False
        if held_back:
            record.fields = {**fields, "repeated": held_back}
        return True


class LogControl:
    """What ``configure`` did, and how to change it."""

    def __init__(self, root: logging.Logger, handler: logging.Handler) -> None:
        self._root: Final = root
        self._handler: Final = handler

    def set_level(self, level: str | int, logger: str = "") -> None:
        """Change what is written from now on: everywhere, or below one logger; raises ``ValueError``."""
        target = logging.getLogger(logger) if logger else self._root
        target.setLevel(level.upper() if isinstance(level, str) else level)

    def close(self) -> None:
        """Take the handler away again."""
        self._root.removeHandler(self._handler)
        self._handler.close()


def configure(
    *,
    format: Format = "auto",
    level: str | int = "INFO",
    stream: TextIO | None = None,
    root: logging.Logger | None = None,
) -> LogControl:
    """Write the process's log to ``stream`` (standard error); ``auto`` means JSON unless it is a terminal."""
    out = stream if stream is not None else sys.stderr
    is_terminal = out.isatty()
    formatter: logging.Formatter
    if format == "json" or (format == "auto" and not is_terminal):
        formatter = JsonFormatter()
    else:
        formatter = ConsoleFormatter(colour=is_terminal)
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    handler.addFilter(RepeatFilter())
    target = root if root is not None else logging.getLogger()
    target.addHandler(handler)
    control = LogControl(target, handler)
    control.set_level(level)
    return control


_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "fields",
    "message",
    "asctime",
    "taskName",
}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of a record: its own, or those of the task that a library logs in."""
    own = getattr(record, "fields", None)
    fields = dict(own) if isinstance(own, Mapping) else dict(current_fields())
    fields.update({key: value for key, value in record.__dict__.items() if key not in _STANDARD})
    return {key: _plain(value) for key, value in fields.items()}


def _plain(value: object) -> object:
    """A value as it is written; objects of the API by their names only."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Key | BaseException):
        return str(value)
    if isinstance(value, Mapping):
        return (
            {str(key): _plain(item) for key, item in value.items()} if not _is_object(value) else _name(value)
        )
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Writable):
        return {"name": value.metadata.name, "namespace": value.metadata.namespace}
    return str(value)


def _is_object(value: Mapping[Any, Any]) -> bool:
    return "kind" in value and "apiVersion" in value


def _name(value: Mapping[Any, Any]) -> dict[str, object]:
    metadata = value.get("metadata")
    found: Mapping[Any, Any] = metadata if isinstance(metadata, Mapping) else {}
    return {"name": found.get("name", ""), "namespace": found.get("namespace", "")}


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError):
        # Rare, and not worth loading with every controller: keys that are no strings, numbers beyond 64 bits.
        import json

        return json.dumps(value, default=str)


def _timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
