"""Options of the verbs, and how they look in a query or body.

They are typed dictionaries, so ``client.list(Pod, namespace="a", limit=500)`` is checked by name and
type, while each option is described once. A name that is not known is refused at run time as well: a
misspelt ``dry_run`` must not write.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

from quarterdeck.api import UNSET, Selector, encode
from quarterdeck.api.meta import DeleteOptions, Preconditions
from quarterdeck.api.selector import FieldSelector

Labels: TypeAlias = Selector | str | Mapping[str, str] | None
"""Which labels: a selector, its text, a map of exact values; ``None`` for no restriction."""

Fields: TypeAlias = FieldSelector | str | Mapping[str, str] | None
"""Which fields: a field selector, its text, a map of exact values; ``None`` for no restriction."""

FieldValidation = Literal["", "Ignore", "Warn", "Strict"]
Propagation = Literal["", "Orphan", "Background", "Foreground"]
Query: TypeAlias = tuple[tuple[str, str], ...]


class ListOptions(TypedDict, total=False):
    """Options of ``list``."""

    namespace: str
    """Namespace to list; empty (the default) lists all of them."""
    labels: Labels
    fields: Fields
    limit: int
    """Largest number of objects in the answer; 0 (the default) means all."""
    continue_token: str
    """Token of the page before."""
    resource_version: str
    resource_version_match: str


class WatchOptions(TypedDict, total=False):
    """Options of ``watch``."""

    namespace: str
    """Namespace to watch; empty (the default) watches all of them."""
    labels: Labels
    fields: Fields
    resource_version: str
    """Version to start after; empty starts with the current state."""
    bookmarks: bool
    """Ask for bookmarks, which move the version on while nothing happens."""
    timeout_seconds: int
    """Ask the server to end the watch after this time; 0 (the default) leaves it to the server."""
    send_initial_events: bool
    """Ask for the current state first, ended by a bookmark; implies ``bookmarks``."""


class WriteOptions(TypedDict, total=False):
    """Options of ``create``, ``update`` and ``patch``."""

    dry_run: bool
    """Validate and admit, store nothing."""
    field_manager: str
    """Name under which the written fields are owned; the server derives one from the user agent."""
    field_validation: FieldValidation
    """What unknown fields cause: nothing, a warning (the server's default), or a refusal."""


class ApplyOptions(WriteOptions, total=False):
    """Options of ``apply``."""

    force: bool
    """Take fields over from other managers instead of raising ``ApplyConflict``."""


class DeleteCallOptions(TypedDict, total=False):
    """Options of ``delete``."""

    grace_period: int
    """Seconds; 0 deletes at once. Unset leaves it to the object."""
    propagation: Propagation
    """What happens to dependents; empty leaves it to the kind."""
    uid: str
    """Delete only this incarnation: ``Conflict`` otherwise."""
    resource_version: str
    """Delete only this version: ``Conflict`` otherwise."""
    dry_run: bool


class DeleteAllOptions(TypedDict, total=False):
    """Options of ``delete_all_of``."""

    namespace: str
    labels: Labels
    fields: Fields
    grace_period: int
    propagation: Propagation
    dry_run: bool


def list_query(options: ListOptions) -> Query:
    """The query of a list."""
    _refuse_unknown("list", options, ListOptions)
    limit = options.get("limit", 0)
    return (
        *_selector_query(options.get("labels"), options.get("fields")),
        *_pairs(
            ("limit", str(limit) if limit else ""),
            ("continue", options.get("continue_token", "")),
            ("resourceVersion", options.get("resource_version", "")),
            ("resourceVersionMatch", options.get("resource_version_match", "")),
        ),
    )


def watch_query(options: WatchOptions) -> Query:
    """The query of a watch."""
    _refuse_unknown("watch", options, WatchOptions)
    initial = options.get("send_initial_events", False)
    timeout = options.get("timeout_seconds", 0)
    return (
        ("watch", "true"),
        *_selector_query(options.get("labels"), options.get("fields")),
        *_pairs(
            ("resourceVersion", options.get("resource_version", "")),
            ("resourceVersionMatch", "NotOlderThan" if initial else ""),
            ("sendInitialEvents", "true" if initial else ""),
            ("allowWatchBookmarks", "true" if initial or options.get("bookmarks") else ""),
            ("timeoutSeconds", str(timeout) if timeout else ""),
        ),
    )


def write_query(options: WriteOptions) -> Query:
    """The query of a write; raises ``TypeError`` for an option that is not known, as the others do."""
    if not options:
        return ()
    _refuse_unknown("a write", options, WriteOptions)
    return _write_pairs(options)


def apply_query(options: ApplyOptions) -> Query:
    """The query of an apply."""
    _refuse_unknown("apply", options, ApplyOptions)
    return (*_write_pairs(options), *_pairs(("force", "true" if options.get("force") else "")))


def _write_pairs(options: WriteOptions) -> Query:
    return _pairs(
        ("dryRun", "All" if options.get("dry_run") else ""),
        ("fieldManager", options.get("field_manager", "")),
        ("fieldValidation", options.get("field_validation", "")),
    )


def _selector_query(labels: Labels, fields: Fields) -> Query:
    """The query of two selectors; raises ``ValueError`` for the selector of nothing."""
    selector = Selector.everything() if labels is None else Selector.of(labels)
    if selector.is_nothing:
        raise ValueError("a selector that matches nothing cannot be sent to the server")
    chosen = "" if fields is None else str(FieldSelector.of(fields))
    return _pairs(("labelSelector", str(selector)), ("fieldSelector", chosen))


def delete_query(options: DeleteCallOptions) -> Query:
    """The query of a delete."""
    _refuse_unknown("delete", options, DeleteCallOptions)
    return _dry_run(options)


def delete_all_query(options: DeleteAllOptions) -> Query:
    """The query of the deletion of many; raises ``ValueError`` if it does not say which."""
    _refuse_unknown("delete_all_of", options, DeleteAllOptions)
    labels, fields = options.get("labels"), options.get("fields")
    if labels is None and fields is None:
        raise ValueError('delete_all_of needs a selector: pass labels="" to delete everything')
    return (*_selector_query(labels, fields), *_dry_run(options))


def delete_body(options: DeleteCallOptions | DeleteAllOptions) -> bytes:
    """The ``DeleteOptions`` of a delete; empty when everything is left to the server."""
    grace = options.get("grace_period")
    propagation = options.get("propagation", "")
    uid, version = options.get("uid"), options.get("resource_version")
    if grace is None and not propagation and not uid and not version:
        return b""
    preconditions = Preconditions(
        uid=str(uid) if uid else UNSET, resource_version=str(version) if version else UNSET
    )
    return encode(
        DeleteOptions(
            grace_period_seconds=UNSET if grace is None else grace,
            propagation_policy=propagation or UNSET,
            preconditions=preconditions if uid or version else UNSET,
        )
    )


def _dry_run(options: DeleteCallOptions | DeleteAllOptions) -> Query:
    return (("dryRun", "All"),) if options.get("dry_run") else ()


def _refuse_unknown(verb: str, options: Mapping[str, object], kind: type) -> None:
    known = kind.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{verb} has no option {name!r}; it has {', '.join(known)}")


def _pairs(*pairs: tuple[str, str]) -> Query:
    return tuple(pair for pair in pairs if pair[1])
