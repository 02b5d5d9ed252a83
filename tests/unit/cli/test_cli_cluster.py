"""What a cluster needs of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarterdeck.cli.cluster import private_socket
from quarterdeck.cli.error import CommandError


def test_a_folder_that_is_too_deep_for_a_socket_is_named_with_the_way_out() -> None:
    assert private_socket(Path("/tmp/x")) == Path("/tmp/x/apiserver.sock")
    with pytest.raises(CommandError, match=r"aaa; set TMPDIR to a shorter one$"):
        private_socket(Path("/", *["a" * 40] * 3))
