"""Agents as workflows of durable engines: each model call and each tool call is a recorded step.

A run whose process has died is continued by another process. Calls whose result is recorded are not repeated.

===========================  ============================================================  =====================
`turntree.durable.dbos`      `DBOS <https://docs.dbos.dev>`_, with PostgreSQL or SQLite    ``turntree[dbos]``
`turntree.durable.absurd`    `Absurd <https://earendil-works.github.io/absurd/>`_, with    ``turntree[absurd]``
                             PostgreSQL
===========================  ============================================================  =====================

Both modules have a class ``DurableAgent`` with the same methods. ``docs/durable.md`` says which guarantees come from
whom, and when to use the stores of turntree instead.
"""

from turntree._public_names import set_public_module as _set_public_module
from turntree.durable._steps import PendingCall

__all__ = ["PendingCall"]

_set_public_module(__name__, globals())
