"""A layer under coding agents: policies on what they do, hooks of their harnesses, coordination of several agents.

::

    from turntree.harness import Gate, Project

    gate = Gate.load(Project.find("."))
    decision = gate.check({"kind": "shell", "command": "git push --force"})
    print(decision.outcome, decision.reason, decision.remedy)

The same rules guard the tools of your own agents (the middleware `guard`) and coding harnesses such as Claude Code
(`hooks.handle`, the command ``turntree hook``, the native program ``turntree-hook``).
"""

from __future__ import annotations

from turntree._public_names import set_public_module
from turntree.harness import hooks
from turntree.harness._contexts import Claim, Lease, ModelSlot
from turntree.harness._coordination import Conflict, Coordination, Forecast, Overlaps, Worktree, Worktrees
from turntree.harness._errors import ClaimConflict, HarnessError, IntegrityViolation, PolicyViolation, StoreBusy
from turntree.harness._gate import Action, Change, Decision, Gate, MatchedRule, Replay
from turntree.harness._guard import Guard, guard
from turntree.harness._project import Project
from turntree.harness.hooks import HookReply

__all__ = [
    "Action",
    "Change",
    "Claim",
    "ClaimConflict",
    "Conflict",
    "Coordination",
    "Decision",
    "Forecast",
    "Gate",
    "Guard",
    "HarnessError",
    "HookReply",
    "IntegrityViolation",
    "Lease",
    "MatchedRule",
    "ModelSlot",
    "Overlaps",
    "PolicyViolation",
    "Project",
    "Replay",
    "StoreBusy",
    "Worktree",
    "Worktrees",
    "guard",
    "hooks",
]

set_public_module("turntree.harness", globals())
