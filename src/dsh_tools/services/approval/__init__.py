"""Asking a person before a call runs.

A policy says that a call needs approval (``Ask`` on ``tools/pre-execute``); this service finds
somebody to ask. Mount it, and say who answers::

    ctx.plugin(ApprovalPlugin())
    ctx.approval.answer_with(lambda request: "allowed-once" if request.tool_name == "read" else None)

**The question.** An :class:`ApprovalRequest` names the agent, the tool, the reason, and carries
the frozen arguments with their digest. They have been validated and their defaults filled in
before anybody is asked, and nothing can change them afterwards: what is shown is what will run (D25, D43).

**The answer.** An :class:`ApprovalAnswer`: one of four outcomes, an optional reason that the model
gets to read, and optionally how far the answer is to be remembered. Only ``allowed-once`` grants,
and only this one call (HOST-82). ``unavailable`` is what comes out where nobody can answer, or an
answerer fails (HOST-87): no answer is never a yes.

**What it is bound to.** A grant counts for this session, this call, these arguments, and the rules in force
(``ctx.tools.declare_policy``), which the question names by their digest; see :class:`Binding`. If the rules have
changed when the answer comes, it is refused, and the question is put again. A refusal stands whatever changes.

**Who answers.** Listeners on ``approval/request``, first come, each for the agents of its scope.
``answer_with(fn)`` registers a function as one; :func:`scripted` and :func:`always` make such
functions. A front end that answers from elsewhere, such as a page, calls ``open_desk()`` once,
shows ``pending`` and calls ``answer(request_id, outcome, …)``. Of several answers the first counts, and
the other front ends' questions are withdrawn.

**The record.** Where the agent has a session log, each question leaves ``approval/asked`` and exactly
one ``approval/decided`` in it (HOST-84); so an asked one without its decision is what is still open,
also for another process that reads the log (:func:`open_questions`). Without an open turn nobody is asked.

**Nobody there.** With ``suspend_after`` a call whose question nobody answers in time is suspended: its turn ends as
waiting, and the question stays open in the log. :func:`answer_question` answers it from any process that has the
session's store; ``agent.resume()`` then goes on (D34).

**Switching it off.** The policy ``never`` rejects every question unasked (HOST-86); it is the config's
``policy``, or set for one session by ``set_policy``.

Remembered answers are used only where :class:`dsh_tools.services.PolicyPlugin` is mounted.
"""

from __future__ import annotations

from .answerers import Answerer, AnswerLike, always, scripted
from .binding import Binding
from .history import ApprovalHistory, open_questions
from .plugin import Approval, ApprovalConfig, ApprovalPlugin
from .records import (
    APPROVAL_ASKED,
    APPROVAL_DECIDED,
    APPROVAL_REQUEST,
    APPROVAL_SUSPENDED,
    OUTCOMES,
    ApprovalAnswer,
    ApprovalRequest,
    AskPolicy,
    Outcome,
    Remember,
    read_answer,
)
from .service import ApprovalService
from .stored import answer_question

__all__ = [
    "APPROVAL_ASKED",
    "APPROVAL_DECIDED",
    "APPROVAL_REQUEST",
    "APPROVAL_SUSPENDED",
    "OUTCOMES",
    "AnswerLike",
    "Answerer",
    "Approval",
    "ApprovalAnswer",
    "ApprovalConfig",
    "ApprovalHistory",
    "ApprovalPlugin",
    "ApprovalRequest",
    "ApprovalService",
    "AskPolicy",
    "Binding",
    "Outcome",
    "Remember",
    "always",
    "answer_question",
    "open_questions",
    "read_answer",
    "scripted",
]
