"""A write that waits for its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .bucket import Bucket
from .entry import Entry


class Write:
    """One change of one key; `future` is answered when it is durable."""

    __slots__ = (
        "bucket",
        "expected",
        "fields",
        "future",
        "is_delete",
        "labels",
        "mark",
        "name",
        "namespace",
        "value",
    )

    def __init__(
        self,
        bucket: Bucket,
        namespace: str,
        name: str,
        expected: int,
        value: bytes,
        labels: Mapping[str, str] | None,
        fields: Mapping[str, str] | None,
        mark: object,
        is_delete: bool,
        future: asyncio.Future[Entry],
    ) -> None:
        self.bucket = bucket
        self.namespace = namespace
        self.name = name
        self.expected = expected
        self.value = value
        self.labels = labels
        self.fields = fields
        self.mark = mark
        self.is_delete = is_delete
        self.future = future
