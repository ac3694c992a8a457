"""Loads the native module in a thread that does not end, if the importing thread may end.

The allocator of the native module takes the thread that loads it for the main thread of the process, and frees what
belongs to it when that thread ends; other threads then crash. Streamlit and some servers import programs in threads.
"""

import os
import sys
from _thread import allocate_lock, get_native_id, start_new_thread


def _load_for_good() -> None:
    """Load the native module for the whole process. Does nothing in the main thread, which does not end."""
    if "turntree._core" in sys.modules or _is_main_thread():
        return
    from importlib.util import find_spec

    spec = find_spec("turntree._core")
    if spec is None or not spec.has_location or spec.origin is None:
        return  # a bundled module: its program has loaded it
    library, loaded = spec.origin, allocate_lock()
    loaded.acquire()

    def hold() -> None:
        try:
            _open(library)
        finally:
            loaded.release()
        forever = allocate_lock()
        forever.acquire()
        forever.acquire()

    start_new_thread(hold, ())
    loaded.acquire()


def _open(library: str) -> None:
    try:
        from ctypes import CDLL

        CDLL(library)
    except (ImportError, OSError):
        return  # the import that follows reports the error


def _is_main_thread() -> bool:
    if sys.platform == "linux":
        return get_native_id() == os.getpid()
    threading = sys.modules.get("threading")
    return threading is None or threading.current_thread() is threading.main_thread()


_load_for_good()
