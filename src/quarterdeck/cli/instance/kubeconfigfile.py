"""A cluster's context in a kubeconfig file that may be the user's own: put in, and taken out again.

As with kind: entries of other clusters stay as they are, the new context becomes the current one, and the
file is the first that exists of $KUBECONFIG, or ~/.kube/config. What was there before is there afterwards,
byte for byte unless somebody else changed the file meanwhile; a file is deleted only if it was made here and
holds nothing else. kubectl's lock keeps others from writing at the same time, and a file that cannot be read
is refused, never replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from quarterdeck.api.jsonobject import Json
from quarterdeck.cli.error import CommandError
from quarterdeck.errors import reason_of

_LISTS: Final = ("clusters", "users", "contexts")
_LOCK_SECONDS: Final = 5.0


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that kubectl would read, and kind would write."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    for path in named:
        if path.exists():
            return path
    return named[-1] if named else Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"


def text_of(path: Path) -> str | None:
    """What is in a file, None if there is none; raises CommandError if it cannot be read. Blocking."""
    try:
        return path.read_bytes().decode()  # line ends as they are
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {reason_of(error)}") from error


class ContextInFile:
    """One cluster's entries in one file. Blocking.

    before: the file as it was before the first of the running clusters joined it (see ``text_of``). They may
        end in any order; the last one brings this text back.
    """

    def __init__(self, path: Path, name: str, *, before: str | None) -> None:
        self.path: Final = path
        self.name: Final = name
        self._before: Final = before
        self._was_current = ""

    def add(self, kubeconfig: Json, *, left_behind: Callable[[str], bool] = lambda _: False) -> None:
        """Put in the one cluster, user and context of ``kubeconfig``, and make it the current context.

        Entries whose names are ``left_behind``, by clusters that were killed, are taken out. Raises
        CommandError, and changes nothing, if the file is no kubeconfig or cannot be written.
        """
        with self._locked():
            document = self._read()
            current = str(document.get("current-context") or "")
            self._was_current = "" if current == self.name else current
            for key in _LISTS:
                [entry] = kubeconfig[key]
                others = [
                    each for each in self._others(document, key) if not left_behind(str(each.get("name")))
                ]
                document[key] = [*others, {**entry, "name": self.name}]
            document["contexts"][-1]["context"].update(cluster=self.name, user=self.name)
            self._write(_dumped({**document, "current-context": self.name}))

    def remove(self) -> None:
        """Take the entries out, and give the user back the current context of before."""
        with self._locked():
            if not self.path.exists():
                return
            document = self._read()
            for key in _LISTS:
                document[key] = self._others(document, key)
            if not any(document[key] for key in _LISTS) and self._before is None:
                self.path.unlink()
                return
            before = self._parsed(self._before)
            if document.get("current-context") == self.name:
                known = {each.get("name") for each in document["contexts"]}
                removed = {each.get("name") for each in before.get("contexts") or ()} - known
                first = before.get("current-context") or ""
                chosen = self._was_current if self._was_current in known else first
                document["current-context"] = "" if chosen in removed else chosen
            unchanged = _meaning(document) == _meaning(before)
            self._write(self._before if unchanged and self._before is not None else _dumped(document))

    def _others(self, document: Json, key: str) -> list[Json]:
        return [entry for entry in document.get(key) or () if entry.get("name") != self.name]

    def _read(self) -> Json:
        return self._parsed(text_of(self.path))

    def _parsed(self, text: str | None) -> Json:
        if text is None:
            return {"apiVersion": "v1", "kind": "Config"}
        try:
            document = yaml.load(text, Loader=yaml.CSafeLoader) or {}
        except yaml.YAMLError as error:
            raise CommandError(f"{self.path} cannot be read: {reason_of(error)}") from error
        entries = [document.get(key) or [] for key in _LISTS] if isinstance(document, dict) else [None]
        if not all(isinstance(each, list) and all(isinstance(e, dict) for e in each) for each in entries):
            raise CommandError(f"{self.path} is no kubeconfig; name another file with --kubeconfig")
        found: Json = document
        return found

    def _write(self, text: str) -> None:
        """In one step, so that nobody reads half a file; through links, which stay."""
        path = self.path.resolve()
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.touch(mode=path.stat().st_mode & 0o777 if path.exists() else 0o600)
            temporary.write_bytes(text.encode())
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise CommandError(f"{self.path} cannot be written: {error.strerror}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = Path(f"{self.path}.lock")
        deadline = time.monotonic() + _LOCK_SECONDS
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{self.path} cannot be written: {error.strerror}") from error
        while True:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                break
            except FileExistsError as error:
                if time.monotonic() > deadline:
                    why = "another program is writing it, or left its lock behind"
                    raise CommandError(f"{lock} is there: {why}; remove it if nobody is") from error
                time.sleep(0.02)
            except OSError as error:
                raise CommandError(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _meaning(document: Json) -> Json:
    """A document without what says nothing."""
    return {key: value for key, value in document.items() if value}


def _dumped(document: Json) -> str:
    return yaml.safe_dump(document, sort_keys=False)
