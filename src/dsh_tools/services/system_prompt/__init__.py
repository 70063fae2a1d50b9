"""What a model is told before the conversation: sections, tools, and what holds right now.

Mount it, and let everyone who has something to say register it::

    ctx.plugin(SystemPromptPlugin(), {"persona": "You keep the books of a bakery."})
    ctx.system_prompt.section("books:rules", 110, "Amounts are in {{currency}}.")
    ctx.system_prompt.variable("currency", lambda request: "EUR")
    prompt = await ctx.system_prompt.assemble(AssembleRequest(agent))

**Sections** have a name and an order; text is given at once or by a function that is called at each
assembly, sync or async. They are sorted by order, equal ones by registration. Bands: -100 identity, 0 the
deployment's persona, 100 to 199 guidance on tools (HOST-64). A section of an agent's scope takes the place of a global
one of the same name. Hiding a tool does not remove its guidance: they are registered apart (HOST-66).
A section that is ``complete`` stands alone, whatever else there is (HOST-67).

**Variables** are written ``{{name}}`` in sections. Anything between double braces that is not a variable with a value
is an error that names the section, so that no half-filled prompt goes out (HOST-68). A section of
generated or foreign text says ``literal=True`` and is left as it is.

**Tools** come from providers; the registry is one as soon as ``ctx.tools`` is there, and shows what the scope sees, by
its mode. Sorted by name, unless ``tool_order`` in the config says otherwise (HOST-75, 76).

**Runtime contexts** are what changes: the date, the working directory, the state of something. They never touch
the system prompt, which providers cache; they are one message behind the conversation, sent when it differs
from the last one there (:func:`runtime_context_update`, HOST-71).

**Listeners** on ``system-prompt/assemble`` see the assembly before it is rendered, and what they return counts
(HOST-79). ``system-prompt/change`` says that something was registered or taken back.

**The prefix.** The same registrations give the same bytes (HOST-81). :attr:`AssembledPrompt.fingerprint` is a digest of
the prefix with one for each section and tool; :func:`explain_change` says which of them changed first, and so why a
provider's cached prefix was lost. With :class:`PromptHistoryPlugin` mounted, each agent's session keeps its
fingerprints (:func:`kept_fingerprints`).
"""

from __future__ import annotations

from .contexts import runtime_context_update
from .explain import Fingerprint, PromptChange, explain_change
from .history import PROMPT_EVENT, PromptHistoryPlugin, kept_fingerprints
from .ordering import UNLISTED_TOOLS
from .plugin import SystemPrompt, SystemPromptConfig, SystemPromptPlugin
from .records import (
    IDENTITY_ORDER,
    PERSONA_ORDER,
    SYSTEM_PROMPT_ASSEMBLE,
    SYSTEM_PROMPT_ASSEMBLED,
    SYSTEM_PROMPT_CHANGE,
    TOOL_GUIDANCE_ORDER,
    AssembledPrompt,
    AssembleRequest,
    Assembly,
    PromptSection,
    ToolOffer,
)
from .service import SystemPromptService

__all__ = [
    "IDENTITY_ORDER",
    "PERSONA_ORDER",
    "PROMPT_EVENT",
    "SYSTEM_PROMPT_ASSEMBLE",
    "SYSTEM_PROMPT_ASSEMBLED",
    "SYSTEM_PROMPT_CHANGE",
    "TOOL_GUIDANCE_ORDER",
    "UNLISTED_TOOLS",
    "AssembleRequest",
    "AssembledPrompt",
    "Assembly",
    "Fingerprint",
    "PromptChange",
    "PromptHistoryPlugin",
    "PromptSection",
    "SystemPrompt",
    "SystemPromptConfig",
    "SystemPromptPlugin",
    "SystemPromptService",
    "ToolOffer",
    "explain_change",
    "kept_fingerprints",
    "runtime_context_update",
]
