"""Whatever is wrong with the options: one line, no traceback, and nothing is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]


def refused(arguments: list[str], home: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=home,
        env={**environment, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, 2), done
    [line] = done.stderr.splitlines()
    assert done.stdout == ""
    return line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("up --log-level LOUD", "'LOUD' is no level"),
        ("up --port 99999", "'99999' is no port"),
        ("up --data-dir FILE", "--data-dir FILE is a file; name a folder"),
        ("apiserver --data-dir FILE", "--data-dir FILE is a file; name a folder"),
        ("up --token-file nowhere", "--token-file nowhere"),
        ("up --host 192.0.2.1 --port 0", "192.0.2.1"),
        ("up --operators nodes", "no operator 'nodes'; installed are:"),
        ("up --config nowhere.yaml", "nowhere.yaml: No such file"),
        ("up --nodes x", "--nodes"),
        ("up --nodes 1 --node-capacity gpu", "'gpu' is not NAME=AMOUNT"),
        ("up --node-capacity cpu=4", "--node-capacity has no effect without --nodes"),
        ("up --detach --node-capacity cpu=4", "--node-capacity has no effect without --nodes"),
        ("up --runtime oci", "--runtime has no effect without --local-node"),
        ("up --durability normal", "--durability normal has no effect without --data-dir"),
        ("demo --node-name one", "--node-name has no effect without --local"),
        (
            "up --kubeconfig FILE/config --port 0 --operators none",
            "FILE/config cannot be read: Not a directory",
        ),
        ("demo --examples nowhere", "--examples nowhere is no folder"),
        ("run", "no kubeconfig file found"),
        ("scheduler explain podgroup one", "no kubeconfig file found"),
        ("down", "no cluster is running"),
        ("apiserver --loud", "--loud (see quarterdeck apiserver --help)"),
        ("image import nowhere", "quarterdeck: nowhere: No such file or directory"),
        ("grove run", "required: --config (see quarterdeck grove run --help)"),
        ("frobnicate", "unknown command 'frobnicate' (see quarterdeck --help)"),
        ("upp", "unknown command 'upp'; did you mean up?"),
        ("scheduler explian", "unknown command 'explian'; did you mean explain?"),
        ("up --kubconfig x", "--kubconfig x; did you mean --kubeconfig?"),
        ("up --operators trainr", "; did you mean trainer?"),
        ("examples grov", "; did you mean grove?"),
        ("examples ../README.md", "no example '../README.md'"),
        ("up --config broken.yaml", "broken.yaml: line 1, column 13: mapping values are not allowed"),
        ("up --config wrong.yaml", "wrong.yaml: operators[...]: must be a mapping, not an integer"),
    ],
)
def test_wrong_options_are_told_in_one_line(words: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "FILE").touch()
    (tmp_path / "broken.yaml").write_text("operators: a: b")
    (tmp_path / "wrong.yaml").write_text("operators: {kai: 1}")
    assert told in refused(words.split(), tmp_path)


@pytest.mark.parametrize("name", ["ca.pem", "server.pem", "admin.pem", "service-account.pem"])
def test_a_broken_key_is_named_or_made_anew(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "pki"
    folder.mkdir(parents=True)
    (folder / name).write_text("no key\n")
    arguments = ["apiserver", "--data-dir", "data", "--host", "192.0.2.1", "--port", "0"]
    line = refused(arguments, tmp_path)  # it never gets further than this address
    if name in ("ca.pem", "service-account.pem"):
        assert f"data/pki/{name} cannot be read" in line
    else:
        assert "192.0.2.1" in line


def test_ctrl_c_while_modules_are_imported_ends_without_a_word(tmp_path: Path) -> None:
    hook = "import os, signal, sys\nclass H:\n    def find_spec(self, name, *rest):\n"
    hook += "        if name == 'quarterdeck.cli.argument': os.kill(os.getpid(), signal.SIGINT)\n"
    hook += "sys.meta_path.insert(0, H())\nfrom quarterdeck.cli.__main__ import main\nsys.exit(main())\n"
    done = subprocess.run([sys.executable, "-c", hook], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
