"""Talking to an API server: credentials, transports, verbs, patches, discovery.

``Client`` is what programs use; ``Config.load()`` finds the server; ``Transport`` is where the
embedded server plugs in without sockets. Errors are in ``quarterdeck.errors``. This room knows objects
(``quarterdeck.api``), what it shares with servers (``quarterdeck.wire``) and nothing else of ours: no caches,
no controllers.
"""

from quarterdeck.client.backoff import DEFAULT_BACKOFF, DEFAULT_RETRY, Backoff, retry_on_conflict
from quarterdeck.client.call import Call, Interceptor, Layer, Proceed, ProceedStream, StreamInterceptor, Verb
from quarterdeck.client.client import Client
from quarterdeck.client.clock import Clock, Random, SystemClock
from quarterdeck.client.config import Config, ExecOptions, Impersonation, user_agent
from quarterdeck.client.credential import Anonymous, BasicAuth, Credential, ExecPlugin, FileToken, StaticToken
from quarterdeck.client.discovery import ResourceMapping, RestMapper
from quarterdeck.client.http import HttpTransport
from quarterdeck.client.inprocess import InProcessTransport, LocalServer, LocalStream
from quarterdeck.client.lane import Lane, LaneName
from quarterdeck.client.line import MAX_LINE, line_batches
from quarterdeck.client.option import (
    ApplyOptions,
    DeleteAllOptions,
    DeleteCallOptions,
    Fields,
    FieldValidation,
    Labels,
    ListOptions,
    Propagation,
    WatchOptions,
    WriteOptions,
)
from quarterdeck.client.patch import (
    JsonPatch,
    MergePatch,
    Patch,
    StrategicMergePatch,
    apply_json_patch,
    apply_merge_patch,
    json_patch,
    merge_from,
    merge_patch,
)
from quarterdeck.client.representation import AnyKind, MetadataKind, RawPage, metadata_of
from quarterdeck.client.rest import Observer, RequestRecord, RestClient
from quarterdeck.client.subresource import Subresource
from quarterdeck.client.tls import TlsOptions
from quarterdeck.client.transport import Headers, Response, Stream, Transport
from quarterdeck.client.warning import LogOnce, WarningHandler, log_every_warning
from quarterdeck.client.watch import Bookmark, Watch, WatchEvent
from quarterdeck.client.wrapper import (
    dry_run,
    field_owner,
    field_validation,
    intercept,
    namespaced,
    raise_once,
)

__all__ = [
    "DEFAULT_BACKOFF",
    "DEFAULT_RETRY",
    "MAX_LINE",
    "Anonymous",
    "AnyKind",
    "ApplyOptions",
    "Backoff",
    "BasicAuth",
    "Bookmark",
    "Call",
    "Client",
    "Clock",
    "Config",
    "Credential",
    "DeleteAllOptions",
    "DeleteCallOptions",
    "ExecOptions",
    "ExecPlugin",
    "FieldValidation",
    "Fields",
    "FileToken",
    "Headers",
    "HttpTransport",
    "Impersonation",
    "InProcessTransport",
    "Interceptor",
    "JsonPatch",
    "Labels",
    "Lane",
    "LaneName",
    "Layer",
    "ListOptions",
    "LocalServer",
    "LocalStream",
    "LogOnce",
    "MergePatch",
    "MetadataKind",
    "Observer",
    "Patch",
    "Proceed",
    "ProceedStream",
    "Propagation",
    "Random",
    "RawPage",
    "RequestRecord",
    "ResourceMapping",
    "Response",
    "RestClient",
    "RestMapper",
    "StaticToken",
    "StrategicMergePatch",
    "Stream",
    "StreamInterceptor",
    "Subresource",
    "SystemClock",
    "TlsOptions",
    "Transport",
    "Verb",
    "WarningHandler",
    "Watch",
    "WatchEvent",
    "WatchOptions",
    "WriteOptions",
    "apply_json_patch",
    "apply_merge_patch",
    "dry_run",
    "field_owner",
    "field_validation",
    "intercept",
    "json_patch",
    "line_batches",
    "log_every_warning",
    "merge_from",
    "merge_patch",
    "metadata_of",
    "namespaced",
    "raise_once",
    "retry_on_conflict",
    "user_agent",
]
