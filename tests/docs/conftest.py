"""What the pages say is tried with the wheel, as whoever installs it has it, and not with this tree."""

from __future__ import annotations

import fcntl
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "quarterdeck": "from quarterdeck.cli.__main__ import main\nimport sys\nsys.exit(main())\n",
    "pip": "import runpy\nrunpy.run_module('pip', run_name='__main__')\n",
    "pytest": "import pytest, sys\nsys.exit(pytest.main())\n",
}


@pytest.fixture(scope="session")
def wheel_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment where the wheel is installed; one for all workers.

    What the wheel depends on comes from the environment of the tests, whose own installation of the package
    is not to be seen there: a folder that is named in a .pth file brings no .pth files of its own.
    """
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if place.name.startswith("popen-") else place) / "wheel"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        programs = place / "venv" / "bin"
        if not (place / "done").exists():
            (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(place), versions=["standard"])
            venv.create(place / "venv", symlinks=True)
            (packages,) = (place / "venv").glob("lib/python*/site-packages")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(packages)
            (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
            for name, code in PROGRAMS.items():
                program = programs / name
                program.write_text(f"#!{programs}/python\n{code}")
                program.chmod(0o755)
            (place / "done").touch()
    return programs
