"""Tells IPython how to show coroutines that were not awaited, and what completes names.

Called when turntree is imported in a kernel.
"""

from __future__ import annotations

from turntree.notebook._screen import kernel_shell


def register() -> None:
    """Register the hints and completions, if this is a kernel."""
    shell = kernel_shell()
    if shell is not None:
        from turntree.notebook import _completion, _ipython

        _ipython.hints(shell)
        _completion.register(shell)
