"""Rules from the configuration: which calls run, which ask a person, which are refused.

Mount it with rules; in ``dsh.yaml`` they look like this::

    plugins:
      - use: dsh_tools.services:PolicyPlugin
        config:
          default: ask
          rules:
            - {tool: read, action: allow}
            - {tool: bash, arguments: {command: "git status"}, action: allow}
            - {tool: "mcp__*", action: ask, reason: this leaves the machine}
            - {tool: write, arguments: {file_path: "*.env"}, action: deny, reason: secrets stay as they are}

**Which rule counts.** All that match, in any order: ``deny`` over ``ask`` over ``allow`` (D33). ``default``
is for calls that no rule names; so an ``allow`` rule is an exception from the default, and never from
another rule. What other listeners decide is combined the same way: a hook that allows does not lift an
``ask`` of a rule, and a rule that allows does not lift the ``ask`` of a hook. The plugin's listener is
put in front of those registered before it, and its denials stand as a guard too, which nobody can cut short.

**What a pattern says.** A pattern without wildcards matches exactly itself: ``docker run`` is not
``docker run -v /:/host alpine``. ``*`` is any run of characters, ``?`` any one, and ``\\`` takes the next
character as it is. Matching costs no more than the lengths of pattern and text multiplied.

A rule that can match nothing is warned of in the log, once, at the first call that is judged: one whose exact tool
name no registered tool has, or whose argument no tool that it is about declares. ``ctx.tools.explain`` names the rules
about a call's tool that do not match it, each with the argument that keeps it from matching (``missed``).

**Arguments** are named by their path: ``path``, ``options.force``, ``files[0]``, ``files[*]``, ``["odd.key"]``. A rule
matches if all the arguments that it names do; those it does not name are free. Against text goes a
pattern, against anything else the value itself (``force: true``); a list gives alternatives. What restricts fails
closed: in a ``deny`` or ``ask`` a pattern is also compared with the JSON text of numbers, booleans and null, so that
``amount: "5"`` is 5, too, and ``"*"`` is any value that is there, objects and lists included. In an ``allow`` a pattern
matches text only. With ``[*]`` a
``deny`` or ``ask`` needs one element that matches, an ``allow`` needs all of them to, and at least one. An
``allow`` does not let a wildcard reach over a ``..`` in a path: ``src/*`` does not allow ``src/../../etc``.
Rules see the validated arguments with their defaults filled in, which are those the tool will get.

A pattern over a shell command is a convenience and no wall: one command can be written in many ways. Allow exact
commands, and keep what must not happen out of reach of the shell.

**Remembered answers.** A person who is asked may answer for the rest of the session: for this tool with exactly
these arguments, or for this tool at all. The first is bound to the digest of the arguments, so changed arguments ask
again; both are bound to the rules, so that a grant is forgotten when those change. The answers are in the session log,
so a resumed session knows them; a forked one does not. Each use is recorded like every other answer.
``remember: false`` switches this off.
"""

from __future__ import annotations

from .globs import Glob
from .paths import ArgumentPath
from .plugin import PolicyConfig, PolicyPlugin
from .rules import Action, Rule, RuleConfig, Rules, Verdict

__all__ = [
    "Action",
    "ArgumentPath",
    "Glob",
    "PolicyConfig",
    "PolicyPlugin",
    "Rule",
    "RuleConfig",
    "Rules",
    "Verdict",
]
