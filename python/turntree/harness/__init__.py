"""A layer under coding agents: policies on what they do, hooks of their harnesses, coordination of several agents.

::

    from turntree.harness import Gate, Project

    gate = Gate.load(Project.find("."))
    decision = gate.check({"kind": "shell", "command": "git push --force"})
    print(decision.outcome, decision.reason, decision.remedy)

The same rules guard your own agents' tools (`guard`) and coding harnesses such as Claude Code (`hooks.handle`, the
command ``turntree hook``, the native program ``turntree-hook``).
"""

from __future__ import annotations

from turntree._public_names import set_public_module
from turntree.harness import hooks
from turntree.harness._coordination import Coordination, Lease, Worktree, Worktrees
from turntree.harness._errors import ClaimConflict, HarnessError, IntegrityViolation, PolicyViolation, StoreBusy
from turntree.harness._gate import Decision, Gate, MatchedRule
from turntree.harness._guard import guard
from turntree.harness._project import Project
from turntree.harness.hooks import HookReply

__all__ = [
    "ClaimConflict",
    "Coordination",
    "Decision",
    "Gate",
    "HarnessError",
    "HookReply",
    "IntegrityViolation",
    "Lease",
    "MatchedRule",
    "PolicyViolation",
    "Project",
    "StoreBusy",
    "Worktree",
    "Worktrees",
    "guard",
    "hooks",
]

set_public_module("turntree.harness", globals())
