"""Texts that are too long for a model: kept aside, with a preview in their place.

Two plugins, either of which can be replaced::

    ctx.plugin(LocalSpillPlugin(), {"root": "/var/lib/dsh/artifacts"})
    ctx.plugin(SpillPolicyPlugin(), {"max_inline_bytes": 32_000})

**The store** (``ctx.spill``, any :class:`SpillStore`) keeps a text and gives a locator for it. The local one
writes files that only their owner may read, one folder for each session, and mounts the tool
``read_artifact``, which pages through what its own session kept and through nothing else. Without a
``root`` the files are in a private temporary folder of the process. Nothing is ever removed: a
session that is resumed still finds what its history points to.

**The policy** looks at each result last of all listeners on ``tools/post-execute``. Where the content is text
of more than ``max_inline_bytes`` UTF-8 bytes, the full text is kept and the model gets its head, its tail and
where the rest is, within the limit all together (HOST-101). Text that is pretty-printed JSON is cut between
elements. Only the content changes: the value, which programs and hooks get, the error, and the contexts
stay (HOST-100). Left alone are blocks, replaced values, calls that a program makes, content that is not only
text, and tools that page by themselves (``exclude``). The copy of a program's calls in the session log is
bounded the same way (HOST-105).

It is best effort: without a session or a store, or where saving fails, the result stays as it is, with
a warning in the log (HOST-104). Without ``max_inline_bytes`` nothing is bounded.
"""

from __future__ import annotations

from .local import LocalSpillConfig, LocalSpillPlugin, LocalSpillStore
from .policy import SpillPolicyConfig, SpillPolicyPlugin
from .preview import bounded_text
from .records import ArtifactPage, SavedText, SpillOwner, SpillSource, SpillStore

__all__ = [
    "ArtifactPage",
    "LocalSpillConfig",
    "LocalSpillPlugin",
    "LocalSpillStore",
    "SavedText",
    "SpillOwner",
    "SpillPolicyConfig",
    "SpillPolicyPlugin",
    "SpillSource",
    "SpillStore",
    "bounded_text",
]
