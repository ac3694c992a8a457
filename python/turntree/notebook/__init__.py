"""turntree in Jupyter: what notebooks show of values, and live displays of runs.

The last value of a cell is shown by itself: turns, messages, threads, trees, sessions. `waterfall` and `conversation`
make displays of what has none. `live` shows a run while it goes on,
and `inspect` serves a page that shows a session in a browser. ``%load_ext turntree`` adds the magics `%chat` and
`%%chat`.
"""

from __future__ import annotations

from turntree._inspector import Inspector, inspect
from turntree._public_names import set_public_module as _set_public_module
from turntree.notebook._live import Live, live
from turntree.notebook._views import View, conversation, waterfall

__all__ = ["Inspector", "Live", "View", "conversation", "inspect", "live", "waterfall"]

_set_public_module(__name__, globals())
