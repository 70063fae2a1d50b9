"""Names on the wire: legal for the provider, and never two names for one.

A legal name is sent as it is. Any other is spelled with legal characters; where two names would then be
the same, the changed ones get a suffix made from a digest of the original, so each stays reachable.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["ANTHROPIC_KEYS", "COMMON_NAMES", "GEMINI_KEYS", "GEMINI_NAMES", "MCP_NAMES", "NameRule", "wire_names"]


class NameRule(NamedTuple):
    """What a provider allows in a name: one character, the first character, the length in characters."""

    char: re.Pattern[str]
    head: re.Pattern[str]
    length: int
    words: str

    def allows(self, name: str) -> bool:
        """Tell whether the provider takes this name as it is."""
        return (
            0 < len(name) <= self.length
            and self.head.match(name) is not None
            and self.char.fullmatch(name[0]) is not None
            and all(self.char.fullmatch(c) for c in name)
        )


_ANY = re.compile(r"(?s).")
_NAME = re.compile(r"[a-zA-Z0-9_-]")
_DOTTED = re.compile(r"[a-zA-Z0-9_.-]")
_WORD = re.compile(r"[a-zA-Z0-9_]")
_LETTER = re.compile(r"[a-zA-Z_]")

COMMON_NAMES: Final = NameRule(_NAME, _ANY, 64, "1 to 64 of a-z A-Z 0-9 _ -")
GEMINI_NAMES: Final = NameRule(_NAME, _LETTER, 64, "1 to 64 of a-z A-Z 0-9 _ -, not starting with a digit or dash")
MCP_NAMES: Final = NameRule(_DOTTED, _ANY, 128, "1 to 128 of a-z A-Z 0-9 _ . -")
ANTHROPIC_KEYS: Final = NameRule(_DOTTED, _ANY, 64, "1 to 64 of a-z A-Z 0-9 _ . -")
GEMINI_KEYS: Final = NameRule(_WORD, _LETTER, 64, "1 to 64 of a-z A-Z 0-9 _, not starting with a digit")

_DIGEST_LENGTHS = (8, 16, 32)


def wire_names(names: Iterable[str], rule: NameRule, *, fallback: str = "tool") -> dict[str, str]:
    """Map each name to its wire form; no two names share one.

    The result does not depend on the order of the names. Names of the result that differ from the
    original were not allowed by the rule.

    Parameters:
        names: the names to send; repeats count once.
        rule: what the provider allows.
        fallback: the word used where no character of a name can be kept.
    """
    ordered = sorted(set(names), key=lambda name: name.encode("utf-8", "surrogatepass"))
    result = {name: name for name in ordered if rule.allows(name)}
    changed = {name: _spell(name, rule, fallback) for name in ordered if name not in result}
    uses = Counter(changed.values())
    taken = set(result)
    for name, spelled in changed.items():
        wire = spelled if uses[spelled] == 1 and spelled not in taken else None
        result[name] = wire or _digested(name, spelled, rule, taken | set(uses))
        taken.add(result[name])
    return result


def _spell(name: str, rule: NameRule, fallback: str) -> str:
    """Replace what is not allowed by underscores; keep the length within the limit."""
    spelled = "".join(c if rule.char.fullmatch(c) else "_" for c in name)
    if not any(c.isalnum() for c in spelled):
        spelled = fallback + spelled
    if rule.head.match(spelled) is None:
        spelled = "_" + spelled
    return spelled[: rule.length]


def _digested(name: str, spelled: str, rule: NameRule, taken: set[str]) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    for length in _DIGEST_LENGTHS:
        wire = f"{spelled[: rule.length - length - 1]}_{digest[:length]}"
        if wire not in taken:
            return wire
    # Only an author who writes another tool's digest into a name comes here; a number settles it.
    number = 2
    while (wire := f"{spelled[: rule.length - 20]}_{digest[:8]}_{number}") in taken:
        number += 1
    return wire
