"""The operator as a program: `python -m team_operator`."""

import asyncio

from quarterdeck.client import Config
from quarterdeck.runtime import Manager, install_definitions
from quarterdeck.runtime.log import configure

from .controller import team_controller
from .types import Team


async def main() -> int:
    configure()
    async with Manager(Config.load()) as manager:
        await install_definitions(manager.client, Team)
        manager.add(team_controller())
        return await manager.run()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
