"""Texts in table cells: ages, labels, selectors, container lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


def human_duration(total: float) -> str:
    """Seconds as kubectl shows them: `5s`, `3m2s`, `4h`, `2d3h`, `45d`; the future is `<invalid>`."""
    seconds = int(total)
    if seconds < 120:
        if seconds >= 0:
            return f"{seconds}s"
        return "<invalid>" if seconds < -1 else "0s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest = divmod(hours, 24)
    if hours < 192:
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    if years < 8:
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def parse_time(stamp: str | None) -> datetime | None:
    """An RFC 3339 time, or None when empty or not a time."""
    if not stamp:
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def age(timestamp: str | None, now: datetime) -> str:
    """How long ago a time was."""
    moment = parse_time(timestamp)
    return UNKNOWN if moment is None else human_duration((now - moment).total_seconds())


def creation_age(obj: Mapping[str, Any], now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`a=b,c=d`, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None, empty: str = NONE) -> str:
    """A label selector as the text of a query, requirements by key."""
    if not selector:
        return empty
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key") or "", expression.get("operator")
        values = ",".join(sorted(expression.get("values") or ()))
        if operator == "In":
            text = f"{key} in ({values})"
        elif operator == "NotIn":
            text = f"{key} notin ({values})"
        else:
            text = key if operator == "Exists" else f"!{key}"
        parts.append((key, text))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or empty


def container_texts(template: Mapping[str, Any] | None) -> tuple[str, str]:
    """Names and images of a pod template's containers."""
    containers: Sequence[Mapping[str, Any]] = ((template or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(container.get("name") or "" for container in containers)
    return names, ",".join(container.get("image") or "" for container in containers)


def is_true(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> bool:
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions or ())


def bool_text(value: bool | None) -> str:
    return UNSET if value is None else ("True" if value else "False")
