"""Where a webhook is found: the paths controller-runtime generates, so that configurations carry over."""

import re
from typing import Final, Literal

from quarterdeck.api import GroupVersionKind
from quarterdeck.errors import ConfigError

CONVERT_PATH: Final = "/convert"
_VALID: Final = re.compile(r"((/[a-zA-Z0-9-_]+)+|/)")


def webhook_path(action: Literal["mutate", "validate"], gvk: GroupVersionKind) -> str:
    """The usual path of a kind; the core group is empty.

    >>> webhook_path("validate", GroupVersionKind("kai.scheduler", "v1", "Queue"))
    '/validate-kai-scheduler-v1-queue'
    >>> webhook_path("mutate", GroupVersionKind("", "v1", "Pod"))
    '/mutate--v1-pod'
    """
    return f"/{action}-{gvk.group.replace('.', '-')}-{gvk.version}-{gvk.kind.lower()}"


def check_path(path: str) -> str:
    """``path`` itself; raises ``ConfigError`` for one that the API server could not call."""
    if _VALID.fullmatch(path) is None:
        raise ConfigError(
            f'invalid webhook path "{path}": it must match the regular expression ^((/[a-zA-Z0-9-_]+)+|/)$'
        )
    return path
