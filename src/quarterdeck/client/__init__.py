"""Talking to an API server: credentials, transports, verbs, patches, discovery.

``Client`` is what programs use; ``Config.load()`` finds the server; ``Transport`` is where the
embedded server plugs in without sockets. Errors are in ``quarterdeck.errors``. This room knows objects
(``quarterdeck.api``), what it shares with servers (``quarterdeck.wire``) and nothing else of ours: no caches,
no controllers.

Here are the names that most programs use; the rest is imported from its module: options of single calls from
``option``, credentials from ``credential``, the retries' defaults from ``backoff``.
"""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
from quarterdeck.client.backoff import Backoff, retry_on_conflict
from quarterdeck.client.call import Call
from quarterdeck.client.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.client.config import Config, Impersonation
from quarterdeck.client.discovery import RestMapper
from quarterdeck.client.http import HttpTransport
from quarterdeck.client.inprocess import InProcessTransport
from quarterdeck.client.patch import JsonPatch, MergePatch, Patch, StrategicMergePatch, merge_from
from quarterdeck.client.representation import AnyKind, MetadataKind, metadata_of
from quarterdeck.client.rest import Observer, RequestRecord
from quarterdeck.client.subresource import Subresource
from quarterdeck.client.tls import TlsOptions
from quarterdeck.client.transport import Response, Stream, Transport
from quarterdeck.client.watch import Bookmark, Watch, WatchEvent
from quarterdeck.client.wrapper import dry_run, field_owner, intercept, namespaced

__all__ = [
    "AnyKind",
    "Backoff",
    "Bookmark",
    "Call",
    "Client",
    "Clock",
    "Config",
    "HttpTransport",
    "Impersonation",
    "InProcessTransport",
    "JsonPatch",
    "MergePatch",
    "MetadataKind",
    "Observer",
    "Patch",
    "RequestRecord",
    "Response",
    "RestMapper",
    "StrategicMergePatch",
    "Stream",
    "Subresource",
    "TlsOptions",
    "Transport",
    "Watch",
    "WatchEvent",
    "dry_run",
    "field_owner",
    "intercept",
    "merge_from",
    "metadata_of",
    "namespaced",
    "retry_on_conflict",
]

if not TYPE_CHECKING:
    __getattr__ = _moved_names(
        __name__,
        {
            "client.backoff": "DEFAULT_BACKOFF DEFAULT_RETRY",
            "client.call": "Interceptor Layer Proceed ProceedStream StreamInterceptor Verb",
            "client.clock": "Random SystemClock",
            "client.config": "ExecOptions user_agent",
            "client.credential": "Anonymous BasicAuth Credential ExecPlugin FileToken StaticToken",
            "client.discovery": "ResourceMapping",
            "client.inprocess": "LocalServer LocalStream",
            "client.lane": "Lane LaneName",
            "client.line": "MAX_LINE line_batches",
            "client.option": (
                "ApplyOptions DeleteAllOptions DeleteCallOptions FieldValidation Fields Labels ListOptions "
                "Propagation WatchOptions WriteOptions"
            ),
            "client.representation": "RawPage",
            "client.rest": "RestClient",
            "client.transport": "Headers",
            "client.warning": "LogOnce WarningHandler log_every_warning",
            "client.wrapper": "field_validation raise_once",
            "wire.patch.jsonpatch": "apply_json_patch json_patch",
            "wire.patch.mergepatch": "apply_merge_patch merge_patch",
        },
    )
