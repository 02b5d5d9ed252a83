"""What the API server of a backend knows."""

from __future__ import annotations

import msgspec

from quarterdeck.api import GroupVersionKind
from quarterdeck.client import Client
from quarterdeck.errors import NotFound


async def is_served(client: Client, gvk: GroupVersionKind) -> bool:
    """Whether there are objects of a kind in a version."""
    try:
        response = await client.raw("GET", f"/apis/{gvk.api_version}")
    except NotFound:
        return False
    resources = msgspec.json.decode(response.body).get("resources") or ()
    return any(each.get("kind") == gvk.kind for each in resources)
