"""The page: a cluster of any kind, drawn live from watches, with the credentials of whoever looks.

::

    async with Client.connect(Config.load()) as client:
        board = Board(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(board.run())
            async with DashboardServer(board) as server:
                print(server.url)

``digest`` keeps of every object what the page shows, ``section`` puts digests together into the rows of the
page; both are pure. ``board`` follows the cluster and tells subscribers which rows changed. ``server`` is one
of them for every browser; the terminal's screen (``quarterdeck top``) is another.

Nothing here writes to the cluster. What the gang scheduler thinks comes through ``Planner``: the scheduler is
another room, and a cluster may have none.
"""

from .board import Board, Changes
from .planner import Plan, Planner, installed_planner
from .server import DashboardServer

__all__ = ["Board", "Changes", "DashboardServer", "Plan", "Planner", "installed_planner"]
