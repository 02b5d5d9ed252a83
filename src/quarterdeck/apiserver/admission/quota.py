"""ResourceQuota: writes are charged to the quotas of their namespace before they are stored.

The use is written to the quota's status first, under the version that was read; only then may the write go
on. Writes that arrive while another batch of their namespace is being settled wait and are settled together,
so that many writes cost one update of the quota. A write that fails later stays charged until the quota
controller counts again, as upstream.

What a quota limits, and what is used, is what its status says: without a controller that fills it in,
nothing is enforced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, cast

from quarterdeck.api.jsonobject import Json
from quarterdeck.api.quota import SPECIAL_RESOURCES, Amounts, evaluator_of, is_ignored
from quarterdeck.api.quota.evaluator import Operation
from quarterdeck.apiserver import status
from quarterdeck.errors import SchemaError
from quarterdeck.wire import wallclock

from .attributes import Attributes
from .quotacheck import Balance, Charge, QuotaRefusal, take

_ATTEMPTS: Final = 100
"""How often a batch is settled anew because somebody else changed a quota meanwhile."""


class Quotas(Protocol):
    """The stored quotas."""

    def list(self, namespace: str) -> Sequence[Json]:
        """The newest state of all quotas of a namespace."""
        ...

    async def write_use(self, quota: Json, used: Amounts) -> bool:
        """Store what a quota is used for; False when it has changed since it was read."""
        ...


class _Waiter:
    def __init__(self, attributes: Attributes, charge: Charge) -> None:
        self.attributes: Final = attributes
        self.charge: Final = charge
        self.settled: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    def allow(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)

    def refuse(self, error: Exception) -> None:
        if not self.settled.done():
            self.settled.set_exception(error)


class QuotaAdmission:
    """Charges writes; the last step of validating admission."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas: Final = quotas
        self._limited: dict[str, set[str]] = {}
        self._waiting: dict[str, list[_Waiter]] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}

    def apply_change(self, namespace: str, name: str, obj: Json | None) -> bool:
        """A quota was stored or is gone (None); True when that begins or ends the use of quotas."""
        had_any = bool(self._limited)
        if obj is not None:
            self._limited.setdefault(namespace, set()).add(name)
        elif namespace in self._limited:
            self._limited[namespace].discard(name)
            if not self._limited[namespace]:
                del self._limited[namespace]
        return had_any != bool(self._limited)

    def covers(self, group: str, resource: str, subresource: str, operation: str) -> bool:
        """Whether such a write may have to be charged."""
        if not self._limited or is_ignored(group, resource) or operation not in ("CREATE", "UPDATE"):
            return False
        if (group, resource) in SPECIAL_RESOURCES:
            return subresource in ("", "resize", "status")
        return operation == "CREATE" and not subresource

    async def validate(self, attributes: Attributes) -> None:
        """Charge a write; raises StatusError when it does not fit."""
        namespace = attributes.namespace
        if not attributes.namespaced or namespace not in self._limited or attributes.object is None:
            return
        if not self.covers(
            attributes.group, attributes.resource, attributes.subresource, attributes.operation
        ):
            return
        charge = Charge(
            evaluator_of(attributes.group, attributes.resource),
            cast("Operation", attributes.operation),
            attributes.subresource,
            attributes.object,
            attributes.old_object,
            wallclock.now(),
        )
        if not charge.evaluator.handles(charge.operation, charge.subresource, charge.obj, charge.old):
            return
        waiter = _Waiter(attributes, charge)
        self._waiting.setdefault(namespace, []).append(waiter)
        if namespace not in self._settling:
            self._settling[namespace] = asyncio.create_task(
                self._settle_all(namespace), name=f"quota {namespace}"
            )
        await waiter.settled

    async def _settle_all(self, namespace: str) -> None:
        try:
            while batch := self._waiting.pop(namespace, []):
                try:
                    await self._settle(namespace, batch)
                except Exception as error:  # noqa: BLE001  supervision point: nobody may wait for ever
                    for waiter in batch:
                        waiter.refuse(error)
        finally:
            del self._settling[namespace]

    async def _settle(self, namespace: str, batch: list[_Waiter]) -> None:
        late: set[str] | None = None
        for _ in range(_ATTEMPTS):
            found = [Balance(quota) for quota in self._quotas.list(namespace)]
            # a quota that was written in an earlier attempt has been charged
            balances = [each for each in found if late is None or each.name in late]
            # one that nobody waits for any more is not charged
            batch = [each for each in batch if not each.settled.done() and _is_charged(each, balances)]
            if not batch:
                return
            changed = [balance for balance in balances if balance.has_changed]
            written = await asyncio.gather(
                *(self._quotas.write_use(each.quota, each.used) for each in changed)
            )
            late = {each.name for each, done in zip(changed, written, strict=True) if not done}
            if not late:
                for waiter in batch:
                    waiter.allow()
                return
        for waiter in batch:
            waiter.refuse(status.conflict("resourcequotas", "", min(late or {""})))


def _is_charged(waiter: _Waiter, balances: Sequence[Balance]) -> bool:
    """Whether a write waits for its charge to be written; all others are answered at once."""
    attributes = waiter.attributes
    try:
        if attributes.dry_run:
            take(waiter.charge, [_copy(balance) for balance in balances])
        elif take(waiter.charge, balances):
            return True
    except QuotaRefusal as refusal:
        waiter.refuse(attributes.forbidden(str(refusal)))
        return False
    except SchemaError as error:
        waiter.refuse(status.internal(str(error)))
        return False
    waiter.allow()
    return False


def _copy(balance: Balance) -> Balance:
    copied = Balance(balance.quota)
    copied.used = balance.used
    return copied
