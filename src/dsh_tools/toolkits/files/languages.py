"""The language of a file, by its name, for colouring."""

from __future__ import annotations

__all__ = ["language_of"]

_BY_ENDING = {
    "bash": "bash",
    "c": "c",
    "cc": "cpp",
    "cfg": "ini",
    "cpp": "cpp",
    "cs": "csharp",
    "css": "css",
    "diff": "diff",
    "go": "go",
    "h": "c",
    "hpp": "cpp",
    "html": "html",
    "ini": "ini",
    "java": "java",
    "js": "javascript",
    "json": "json",
    "jsx": "jsx",
    "kt": "kotlin",
    "lua": "lua",
    "md": "markdown",
    "mjs": "javascript",
    "patch": "diff",
    "php": "php",
    "pl": "perl",
    "py": "python",
    "pyi": "python",
    "rb": "ruby",
    "rs": "rust",
    "scss": "scss",
    "sh": "bash",
    "sql": "sql",
    "svg": "xml",
    "swift": "swift",
    "toml": "toml",
    "ts": "typescript",
    "tsx": "tsx",
    "xml": "xml",
    "yaml": "yaml",
    "yml": "yaml",
    "zig": "zig",
}
_BY_NAME = {"dockerfile": "docker", "makefile": "make", "cmakelists.txt": "cmake"}


def language_of(path: str) -> str | None:
    """Return the language of a file, None where its name says nothing."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_ENDING.get(name.rpartition(".")[2] if "." in name else "")
