"""From bytes to documents, as far as conversion and validation look into them.

Only ``spec``, ``status``, the name and the annotations are decoded. The rest of ``metadata``, of which
``managedFields`` is often larger than the object, stays raw JSON and is copied as it came.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.operators.nodegroup.logic.conversion import ConversionError

Document = dict[str, Any]


class _Frame(msgspec.Struct, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, msgspec.Raw] | None = None
    spec: Any = msgspec.UNSET


class _WholeFrame(_Frame, gc=False):
    status: Any = msgspec.UNSET


_frame: Final = msgspec.json.Decoder(_Frame).decode
_whole_frame: Final = msgspec.json.Decoder(_WholeFrame).decode
_plain: Final = msgspec.json.Decoder().decode
_READ: Final = ("name", "annotations")
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_document(raw: msgspec.Raw | bytes) -> Any:
    """A document without unknown top-level fields; what is no API object comes back as it is.

    Raises ``ConversionError`` for what is no JSON.
    """
    try:
        frame = _whole_frame(raw)
    except msgspec.ValidationError:
        return _read_plain(raw)
    except _UNREADABLE as error:
        raise ConversionError(f"parse object metadata: {error}") from error
    document = _document(frame)
    if frame.status is not msgspec.UNSET:
        document["status"] = frame.status
    return document


def read_without_status(raw: msgspec.Raw | bytes) -> Any:
    """Like ``read_document``, for those who judge a spec."""
    try:
        frame = _frame(raw)
    except msgspec.ValidationError:
        return _read_plain(raw)
    except _UNREADABLE as error:
        raise ConversionError(f"parse object metadata: {error}") from error
    return _document(frame)


def _read_plain(raw: msgspec.Raw | bytes) -> Any:
    try:
        return _plain(raw)
    except _UNREADABLE as error:
        raise ConversionError(f"parse object metadata: {error}") from error


def _document(frame: _Frame) -> Document:
    document: Document = {"apiVersion": frame.api_version, "kind": frame.kind}
    if frame.metadata is not None:
        metadata: Document = frame.metadata
        for key in _READ:
            if key in metadata:
                metadata[key] = _read_plain(metadata[key])
        document["metadata"] = metadata
    if frame.spec is not msgspec.UNSET:
        document["spec"] = frame.spec
    return document
