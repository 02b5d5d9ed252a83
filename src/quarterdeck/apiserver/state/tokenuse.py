"""The day on which the token of a Secret was last used, as a label on the Secret.

Administrators find tokens that nobody needs by it. Written at most once a day for each Secret, after the
request that used it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.auth.legacytoken import LAST_USED
from quarterdeck.apiserver.registry.write.writer import Writer
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.status import StatusError
from quarterdeck.apiserver.storage import StorageError
from quarterdeck.wire import wallclock

_log: Final = logging.getLogger("quarterdeck.apiserver")


class TokenUse:
    """Takes notes; `close` waits for those that are being written."""

    def __init__(self, writer: Writer, secrets: Resource) -> None:
        self._writer = writer
        self._secrets = secrets
        self._writing: dict[tuple[str, str], asyncio.Task[None]] = {}

    def used(self, namespace: str, name: str) -> None:
        """A request came with the token of this Secret."""
        if (namespace, name) in self._writing:
            return
        entry = self._secrets.bucket.get(namespace, name)
        if entry is None:
            return
        now = datetime.fromtimestamp(wallclock.now(), UTC)
        # a server whose clock is ahead may have noted tomorrow
        days = [(now + timedelta(days=ahead)).strftime("%Y-%m-%d") for ahead in (0, 1)]
        if entry.labels.get(LAST_USED) in days:
            return
        task = asyncio.create_task(self._note(namespace, name, days[0]), name=f"token use {namespace}/{name}")
        self._writing[namespace, name] = task
        task.add_done_callback(lambda _: self._writing.pop((namespace, name), None))

    async def _note(self, namespace: str, name: str, day: str) -> None:
        def label(secret: Json) -> None:
            metadata = secret["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), LAST_USED: day}

        try:
            await self._writer.update_stored(self._secrets, namespace, name, label)
        except (StatusError, StorageError):
            return  # the Secret is gone, or nothing can be written: the next use is noted
        except Exception:  # noqa: BLE001 - supervision point: nobody waits for this task
            _log.exception("the use of a token was not noted", extra={"namespace": namespace, "secret": name})

    async def close(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*self._writing.values())
