"""The log fields of a request, made only if somebody logs.

Thousands of requests a second are answered without a line of log; building the fields for each would cost
more than reading the review. So the task gets a mapping that knows the request and fills itself on first
use.
"""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final

from quarterdeck.runtime._logfield import _fields as _task_fields  # bound_fields() would build them at once
from quarterdeck.runtime.webhook.admission import Admission

__all__ = ["RequestFields"]


class RequestFields(Mapping[str, object]):
    """Fields of a request on top of those of the task; bound inside a ``with`` block."""

    __slots__ = ("_admission", "_group", "_kind", "_made", "_outer", "_token")

    def __init__(self, admission: Admission, kind: str, group: str) -> None:
        self._admission: Final = admission
        self._kind: Final = kind
        self._group: Final = group
        self._made: Mapping[str, object] | None = None

    def __enter__(self) -> None:
        self._outer = _task_fields.get()
        self._token = _task_fields.set(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _task_fields.reset(self._token)

    def _fields(self) -> Mapping[str, object]:
        if self._made is None:
            self._made = {**self._outer, **self._admission.log_fields(self._kind, self._group)}
        return self._made

    def __getitem__(self, key: str) -> object:
        return self._fields()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __len__(self) -> int:
        return len(self._fields())
