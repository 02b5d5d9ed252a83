"""Who may read the metrics: the API server decides.

A bearer token is checked with a TokenReview, the right to get the path with a SubjectAccessReview. Both are
remembered for a while: scrapers come every few seconds. Tokens are kept as hashes only, and never logged.

The process needs to create ``tokenreviews.authentication.k8s.io`` and
``subjectaccessreviews.authorization.k8s.io``; a scraper needs a ClusterRole with ``nonResourceURLs:
["/metrics"], verbs: ["get"]``.
"""

import asyncio
import hashlib
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from quarterdeck.api.k8s import SubjectAccessReview, TokenReview
from quarterdeck.api.k8s.authentication import TokenReviewSpec, UserInfo
from quarterdeck.api.k8s.authorization import NonResourceAttributes, SubjectAccessReviewSpec
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.rbac import Rule
from quarterdeck.wire.http import Handler, Request, Response, text

REVIEW_RULES: Final = (
    Rule(
        groups=("authentication.k8s.io",),
        resources=("tokenreviews",),
        verbs=("create",),
        is_cluster_wide=True,
    ),
    Rule(
        groups=("authorization.k8s.io",),
        resources=("subjectaccessreviews",),
        verbs=("create",),
        is_cluster_wide=True,
    ),
)
"""What a reviewer needs."""

TOKEN_TTL: Final = 60.0
ALLOWED_TTL: Final = 300.0
DENIED_TTL: Final = 30.0
REVIEW_TIMEOUT: Final = 10.0
MAX_REMEMBERED: Final = 4096
_log: Final = get_logger(__name__)

T = TypeVar("T")


class AccessReviewer:
    """Lets those pass who the API server knows and allows."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock if clock is not None else LoopClock()
        self._users: Final[_Remembered[UserInfo | None]] = _Remembered()
        self._decisions: Final[_Remembered[bool]] = _Remembered()

    async def refuse(self, request: Request) -> Response | None:
        """The answer to a request that may not pass; ``None`` lets it pass."""
        scheme, _, token = request.header("authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return text(401, "Unauthorized\n")
        try:
            user = await self._authenticate(token.strip())
        except (QuarterdeckError, TimeoutError) as error:
            _log.error("Authentication failed", error, trace=False)
            return text(500, "Authentication failed\n")
        if user is None:
            return text(401, "Unauthorized\n")
        try:
            allowed = await self._authorize(user, request.method.lower(), request.path)
        except (QuarterdeckError, TimeoutError) as error:
            _log.error("Authorization failed", error, trace=False, user=user.username)
            return text(500, f"Authorization for user {user.username} failed\n")
        if not allowed:
            return text(403, f"Authorization denied for user {user.username}\n")
        return None

    def guard(self, handler: Handler) -> Handler:
        """The same handler for those who may pass."""

        async def guarded(request: Request) -> Response:
            refusal = await self.refuse(request)
            if refusal is not None:
                return refusal
            answer = handler(request)
            return answer if isinstance(answer, Response) else await answer

        return guarded

    async def _authenticate(self, token: str) -> UserInfo | None:
        now = self._clock.monotonic()
        key = (hashlib.sha256(token.encode()).hexdigest(),)
        known = self._users.find(key, now)
        if known is not None:
            return known[0]
        async with asyncio.timeout(REVIEW_TIMEOUT):
            answer = await self._client.create(TokenReview(spec=TokenReviewSpec(token=token)))
        user = answer.status.user if answer.status.authenticated else None
        self._users.keep(key, user, now + TOKEN_TTL)
        return user

    async def _authorize(self, user: UserInfo, verb: str, path: str) -> bool:
        now = self._clock.monotonic()
        key = (user.username, user.uid, *user.groups, verb, path)
        known = self._decisions.find(key, now)
        if known is not None:
            return known[0]
        spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            non_resource_attributes=NonResourceAttributes(path=path, verb=verb),
        )
        async with asyncio.timeout(REVIEW_TIMEOUT):
            answer = await self._client.create(SubjectAccessReview(spec=spec))
        allowed = bool(answer.status.allowed)
        self._decisions.keep(key, allowed, now + (ALLOWED_TTL if allowed else DENIED_TTL))
        return allowed


class _Remembered(Generic[T]):
    """Answers that hold until a time; the oldest make room."""

    def __init__(self) -> None:
        self._entries: Final[OrderedDict[tuple[str, ...], tuple[T, float]]] = OrderedDict()

    def find(self, key: tuple[str, ...], now: float) -> tuple[T] | None:
        entry = self._entries.get(key)
        if entry is None or entry[1] <= now:
            return None
        return (entry[0],)

    def keep(self, key: tuple[str, ...], value: T, until: float) -> None:
        self._entries[key] = (value, until)
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_REMEMBERED:
            self._entries.popitem(last=False)
