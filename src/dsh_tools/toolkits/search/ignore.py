"""Which files ``.gitignore`` files hide, as ripgrep decides it: each rule is matched against whole paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .globs import GlobSyntaxError, glob_expression

__all__ = ["IgnoreFile", "IgnoreStack", "parse_ignore_file"]


@dataclass(frozen=True, slots=True)
class _Rule:
    expression: re.Pattern[str]
    ignores: bool
    only_folders: bool


class IgnoreFile:
    """The rules of one ``.gitignore`` file; paths are relative to its folder.

    Paths are bytes read as Latin-1, one character a byte, because that is how ``?`` counts.
    """

    __slots__ = ("_rules",)

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = rules

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the file hides a path; None where no rule of it matches. The last match counts."""
        for rule in reversed(self._rules):
            if (is_folder or not rule.only_folders) and rule.expression.match(path) is not None:
                return rule.ignores
        return None


def parse_ignore_file(data: bytes) -> IgnoreFile | None:
    """Read a ``.gitignore`` file; None where it has no rules. A line that is malformed is passed over."""
    lines = data.decode("latin-1").removeprefix("\xef\xbb\xbf").split("\n")
    rules = [rule for line in lines if (rule := _parse_line(line.removesuffix("\r"))) is not None]
    return IgnoreFile(rules) if rules else None


def _parse_line(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    if not line.endswith("\\ "):
        line = line.rstrip(" \t\n\v\f\r")
    if not line:
        return None
    ignores, anchored = True, False
    if line.startswith(("\\!", "\\#")):
        line = line[1:]
    else:
        if line.startswith("!"):
            ignores, line = False, line[1:]
        if line.startswith("/"):
            anchored, line = True, line[1:]
    only_folders = line.endswith("/")
    if only_folders:
        line = line[:-1]
    glob = line
    if not anchored and "/" not in line and not (line.startswith("**/") or line == "**"):
        glob = f"**/{line}"
    # What ends like this means everything inside a folder, and not the folder.
    if glob.endswith("/**"):
        glob += "/*"
    try:
        return _Rule(re.compile(glob_expression(glob), re.DOTALL), ignores, only_folders)
    except GlobSyntaxError:
        return None


@dataclass(frozen=True, slots=True)
class IgnoreStack:
    """The ``.gitignore`` files that hold in one folder, the nearest first.

    Each comes with the path from its folder to the top of the search, or from the top to its folder.

    Parameters:
        files: pairs of what must be put in front of, or cut off, a path below the top, and the rules.
    """

    files: tuple[tuple[str, int, IgnoreFile], ...] = ()

    def hides(self, path: str, is_folder: bool) -> bool:
        """Whether a path, relative to the top of the search, is hidden. The nearest file with a say decides."""
        for before, cut, file in self.files:
            verdict = file.verdict(before + path[cut:], is_folder)
            if verdict is not None:
                return verdict
        return False

    def below(self, folder: str, file: IgnoreFile | None, is_repository: bool) -> IgnoreStack:
        """Return what holds in a folder below: a repository of its own begins anew.

        Parameters:
            folder: the folder's path with a slash at its end, relative to the top; empty for the top itself.
        """
        outer = () if is_repository else self.files
        return IgnoreStack(outer if file is None else (("", len(folder), file), *outer))

    @staticmethod
    def above(parents: Iterable[tuple[str, IgnoreFile]]) -> IgnoreStack:
        """Return what holds above the top: pairs of the path from that folder to the top, and its rules."""
        return IgnoreStack(tuple((f"{path}/", 0, file) for path, file in parents))
