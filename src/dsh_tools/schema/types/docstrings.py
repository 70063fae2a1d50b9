"""What a docstring says: a description for the model, and one for each parameter.

Google, NumPy and reST (Sphinx) sections are read by ``griffe``; a docstring without sections is a
description as it stands.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from griffe import DocstringSection

__all__ = ["DocText", "class_docs", "read_docstring"]

Style = Literal["google", "numpy", "sphinx"]

_NUMPY = re.compile(
    r"^[ \t]*(Parameters|Other Parameters|Attributes|Returns|Yields|Raises)[ \t]*\n[ \t]*-{3,}[ \t]*$", re.M
)
_GOOGLE = re.compile(
    r"^[ \t]*(Args|Arguments|Params|Parameters|Keyword Args|Other Parameters|Attributes|Returns|Yields|Raises):[ \t]*$",
    re.M | re.I,
)
_SPHINX = re.compile(r"^[ \t]*:(param|parameter|arg|argument|key|keyword|returns?|rtype|raises?|type)\b[^:\n]*:", re.M)

_PARAMETER_KINDS = ("parameters", "other parameters", "attributes")


@dataclass(frozen=True, slots=True)
class DocText:
    """A docstring taken apart: the text without its parameter sections, and the parameters by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(doc: str | None) -> DocText:
    """Take a docstring apart.

    The description keeps the summary, the body, notes and examples, and a line on what is returned.
    Sections on parameters and on errors are left out: the schema says the first, and the model
    cannot act on the second.
    """
    text = inspect.cleandoc(doc or "").strip()
    style = _style_of(text)
    if style is None:
        return DocText(text)
    parts: list[str] = []
    parameters: dict[str, str] = {}
    for section in _sections(text, style):
        kind = section.kind.value
        if kind in _PARAMETER_KINDS:
            parameters.update(_parameter_texts(section))
        else:
            parts.append(_section_text(section))
    return DocText("\n\n".join(part for part in parts if part), parameters)


def class_docs(cls: type) -> DocText:
    """Take a class's own docstring apart; what ``dataclass`` writes by itself is not a docstring."""
    doc = cls.__dict__.get("__doc__")
    if not isinstance(doc, str) or doc.startswith(f"{cls.__name__}("):
        return DocText()
    return read_docstring(doc)


def _style_of(text: str) -> Style | None:
    if _NUMPY.search(text):
        return "numpy"
    if _GOOGLE.search(text):
        return "google"
    if _SPHINX.search(text):
        return "sphinx"
    return None


def _sections(text: str, style: Style) -> list[DocstringSection]:
    # griffe takes about 80 ms to import, and most programs start without a sectioned docstring.
    import griffe

    docstring = griffe.Docstring(text)
    if style == "numpy":
        return griffe.parse_numpy(docstring, warnings=False)
    if style == "google":
        # griffe takes a section only after a blank line; authors often leave it out.
        docstring = griffe.Docstring(_GOOGLE.sub(r"\n\g<0>", text))
        return griffe.parse_google(docstring, warnings=False, returns_named_value=False)
    return griffe.parse_sphinx(docstring, warnings=False)


def _parameter_texts(section: Any) -> dict[str, str]:
    # A NumPy entry may name several parameters at once: "low, high : int"; griffe gives one item each.
    return {item.name.lstrip("*"): _one_text(item.description) for item in section.value if item.description}


def _section_text(section: Any) -> str:
    kind = section.kind.value
    if kind == "text":
        return section.value.strip()
    if kind == "returns":
        texts = [_one_text(item.description) for item in section.value if item.description]
        return "Returns: " + " ".join(texts) if texts else ""
    if kind == "admonition":
        title = section.title or section.value.annotation.capitalize()
        return f"{title}: {_one_text(section.value.contents)}"
    if kind == "examples":
        return "Examples:\n" + "\n\n".join(text.strip() for _, text in section.value)
    return ""


def _one_text(text: str) -> str:
    return inspect.cleandoc(text).strip()
