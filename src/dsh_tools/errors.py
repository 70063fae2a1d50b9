"""The error tree: who causes each error, and who gets to see it.

Every class here carries a stable ``code``. Codes are contract: models, logs and
replays match on them, so a code never changes once it is released.

Three readers exist, and each docstring names its own:

* the **model** sees ``Error: <message>`` as the content of a failed call;
* the **author** of a tool or plugin gets the exception raised at their call site;
* the **operator** finds it in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "AbortError",
    "ApprovalError",
    "CallSuspended",
    "CodeRunFailedError",
    "CodeRuntimeError",
    "ConfigError",
    "DefinitionError",
    "DuplicateToolError",
    "EmptyRestrictionError",
    "HarnessError",
    "InactiveEffectError",
    "InvalidParentError",
    "InvalidTimeoutError",
    "JobError",
    "JsonSchemaError",
    "JsonTextError",
    "ListenerError",
    "LossyJsonError",
    "MissingServiceError",
    "OutputDeclarationError",
    "PresentationConflictError",
    "PromptError",
    "RegistrationError",
    "ReservedNameError",
    "RestrictionError",
    "ScopeError",
    "ScopeRequiredError",
    "ServiceConflictError",
    "SessionError",
    "ToolArgsError",
    "ToolError",
    "ToolNotFoundError",
    "ToolOutputError",
    "ToolProcessError",
    "ToolTimeoutError",
    "UnknownRestrictionError",
    "describe_exception",
]


class HarnessError(Exception):
    """An error with a stable code.

    Raised by tool bodies, wrappers, listeners and this package; the **model** sees
    its message, and the result's ``error.info`` carries ``{name, code}`` (PIPE-10, 11).

    Parameters:
        message: what went wrong and, where a reader can act, how to put it right.
        code: a stable machine-readable code; defaults to the class's own.
        name: the name reported beside the code; defaults to the class name.
    """

    default_code: ClassVar[str] = "ERROR"

    def __init__(self, message: str, code: str | None = None, *, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code: str = self.default_code if code is None else code
        self.name: str = type(self).__name__ if name is None else name

    def __str__(self) -> str:
        return self.message


class ViolationsError(HarnessError):
    """An error that lists every violation found, each ending in a path."""

    prefix: ClassVar[str] = ""

    def __init__(self, violations: Sequence[str], *, prefix: str | None = None) -> None:
        self.violations: tuple[str, ...] = tuple(violations)
        super().__init__((self.prefix if prefix is None else prefix) + "; ".join(self.violations))


class CallSuspended(BaseException):
    """A call waits: it has no result yet, and its turn ends without one.

    No error, and no ``Exception`` either, so that wrappers, retries and bodies that catch those let it
    through. Only a call whose state is kept over the end of the process is ever suspended.

    As the reason of an abort signal it leaves the durable calls that the signal reaches waiting, as long as nothing
    of them has run that is not kept.

    Parameters:
        question_id: the question that waits for an answer; None for a call that has only been stopped.
    """

    def __init__(self, question_id: str | None = None) -> None:
        what = "waits to go on" if question_id is None else f"waits for the answer to question {question_id}"
        super().__init__(f"the call {what}")
        self.question_id = question_id


# ── what a model can cause ─────────────────────────────────────────────────────


class ToolError(HarnessError):
    """Raised by a tool body on purpose; the **model** always sees its exact text, even with masking on."""

    default_code = "TOOL_ERROR"


class ToolNotFoundError(HarnessError):
    """The **model** named a tool that its scope cannot see (PIPE-221)."""

    default_code = "UNKNOWN_TOOL"


class ToolArgsError(ViolationsError):
    """The **model** sent arguments that break the tool's schema (PIPE-223)."""

    default_code = "INVALID_ARGS"
    prefix = "invalid arguments: "


class JsonTextError(HarnessError, ValueError):
    """The **model** sent text that is not JSON, or cannot be read without loss (D25, D39).

    ``reason`` is the fault alone; ``offset`` counts characters and is None where the fault has a
    ``path`` inside the value instead; ``snippet`` is the text around the offset, on one line.
    """

    default_code = "INVALID_JSON"

    def __init__(self, reason: str, *, offset: int | None = None, path: str = "", snippet: str = "") -> None:
        self.reason = reason
        self.offset = offset
        self.path = path
        self.snippet = snippet
        where = f" at char {offset}" if offset is not None else (f" at {path}" if path else "")
        near = f", near `{snippet}`" if snippet else ""
        super().__init__(reason + where + near)


class ToolTimeoutError(HarnessError):
    """A call ran past its time limit; caused by the tool's environment, seen by the **model** (PIPE-226)."""

    default_code = "TOOL_TIMEOUT"


class ToolProcessError(HarnessError):
    """The process of a tool's body could not be started, or ended before the body did; seen by the **model**."""

    default_code = "TOOL_PROCESS_FAILED"


class AbortError(HarnessError):
    """A call was cancelled by its caller; the **model** sees whether the body had begun (PIPE-224, 225)."""

    default_code = "ABORTED"


class CodeRunFailedError(HarnessError):
    """A Code Mode program failed; caused and seen by the **model** (PIPE-228)."""

    default_code = "CODE_RUN_FAILED"


# ── what a tool's author can cause ─────────────────────────────────────────────


class ToolOutputError(ViolationsError):
    """A body returned what its output schema forbids; caused by the **author**, seen by the model (PIPE-222)."""

    default_code = "INVALID_TOOL_OUTPUT"

    def __init__(self, tool_name: str, violations: Sequence[str]) -> None:
        super().__init__(violations, prefix=f'tool "{tool_name}" returned invalid output: ')
        self.tool_name = tool_name


class ListenerError(HarnessError):
    """A listener, guard or renderer answered with something the contract does not know.

    Caused by the plugin's **author**; the model sees it as a failed call, and nothing ran unguarded (D37).
    """

    default_code = "INVALID_LISTENER_RESULT"

    def __init__(self, listener: str, stage: str, what: str) -> None:
        super().__init__(f'listener "{listener}" returned an invalid {stage} result: {what}')
        self.listener = listener
        self.stage = stage


class InvalidParentError(HarnessError):
    """A nested call gave a parent that is not a live token of this registry (D21)."""

    default_code = "INVALID_PARENT"


class LossyJsonError(HarnessError):
    """A value is not lossless JSON; ``path`` says where. Raised to the **author** of the value (PIPE-1)."""

    default_code = "LOSSY_JSON"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'value'}: {reason}")
        self.path = path
        self.reason = reason


class JsonSchemaError(ViolationsError):
    """A schema is outside the supported subset; raised to the **author** at definition time (SCHEMA-B15)."""

    default_code = "UNSUPPORTED_SCHEMA"
    prefix = "unsupported JSON schema: "


class DefinitionError(HarnessError, TypeError):
    """A tool definition is incomplete or contradicts itself; raised to the **author** at registration (D26)."""

    default_code = "INVALID_DEFINITION"


class OutputDeclarationError(DefinitionError):
    """A definition lacks a usable ``output`` declaration (PIPE-18)."""

    default_code = "INVALID_OUTPUT_DECLARATION"


class InvalidTimeoutError(DefinitionError):
    """A definition's ``timeout_ms`` is not a positive finite number, or cannot be kept (PIPE-21, D44)."""

    default_code = "INVALID_TIMEOUT"


class RegistrationError(HarnessError):
    """The registry refused a change; raised to the **author** of the plugin, nothing was stored."""

    default_code = "REGISTRATION_REFUSED"


class ReservedNameError(RegistrationError):
    """``run_code`` belongs to Code Mode and cannot be registered (PIPE-22)."""

    default_code = "RESERVED_NAME"


class DuplicateToolError(RegistrationError):
    """The name is taken in this layer (PIPE-23)."""

    default_code = "DUPLICATE_TOOL"


class ScopeRequiredError(RegistrationError):
    """The operation only makes sense in a scoped context (PIPE-40, 57)."""

    default_code = "SCOPE_REQUIRED"


class RestrictionError(RegistrationError):
    """A restriction names what it must not (PIPE-43)."""

    default_code = "INVALID_RESTRICTION"


class EmptyRestrictionError(RestrictionError):
    """A restriction has neither ``allow`` nor ``deny`` (PIPE-41)."""

    default_code = "EMPTY_RESTRICTION"


class UnknownRestrictionError(RestrictionError):
    """A restriction names a tool that the scope does not inherit (PIPE-44)."""

    default_code = "UNKNOWN_RESTRICTION"


class PresentationConflictError(RegistrationError):
    """A scope declared its presentation mode twice (PIPE-58)."""

    default_code = "PRESENTATION_CONFLICT"


class InactiveEffectError(HarnessError):
    """Something was registered on a context that is already disposed or unloading (HOST-16)."""

    default_code = "INACTIVE_EFFECT"


class MissingServiceError(HarnessError, LookupError, AttributeError):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A required service is not on the context; raised to the plugin's **author** (HOST-40, D17).

    It is an AttributeError, too, so that ``hasattr(ctx, "session")`` says whether the service is there.
    """

    default_code = "MISSING_SERVICE"


class ServiceConflictError(HarnessError):
    """A second plugin tried to provide a service that is already provided (HOST-36)."""

    default_code = "SERVICE_CONFLICT"


class ScopeError(HarnessError):
    """A scope's parent link is wrong: bound twice, or part of a cycle (PIPE-34)."""

    default_code = "INVALID_SCOPE"


class CodeRuntimeError(HarnessError):
    """A code runtime was misused: unusable bindings, or a run after disposal. Raised to the **author** (CODE-132)."""

    default_code = "CODE_RUNTIME_MISUSE"


class PromptError(HarnessError):
    """Prompt assembly cannot go on; raised to the **operator** who composed the prompt."""

    default_code = "INVALID_PROMPT"


# ── what an operator can cause ─────────────────────────────────────────────────


class ConfigError(HarnessError):
    """A configuration value is wrong; the **operator** sees file, line and key where they are known."""

    default_code = "INVALID_CONFIG"


class ApprovalError(HarnessError):
    """The approval service was used outside its contract (HOST-83)."""

    default_code = "APPROVAL_MISUSE"


class SessionError(HarnessError):
    """A session or its log refused an operation; the code says which rule (HOST-108, 114)."""

    default_code = "SESSION_ERROR"


class JobError(HarnessError):
    """A background job could not be started or reached; the **model** sees it through the job tools."""

    default_code = "JOB_ERROR"


def describe_exception(error: object) -> str:
    """Return the message a model may read for something that was raised (PIPE-8, 9).

    An exception without a text is named by its class, so that the message is never empty.
    Never raises: an error whose own text fails gives ``<unprintable thrown value>``.
    """
    try:
        if isinstance(error, HarnessError):
            return error.message
        text = str(error)
        if not text and isinstance(error, BaseException):
            return type(error).__name__
        return text
    except Exception:
        return "<unprintable thrown value>"
