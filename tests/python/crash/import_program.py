"""Imports sessions until it is killed: import_program.py URL SOURCE. SOURCE is an export, or a folder of Pydantic AI.

Prints "ready" before the import and "done" after it.
"""

import sys

from turntree import store

if __name__ == "__main__":
    url, source = sys.argv[1:]
    with store.from_url(url) as saved:
        saved.sessions_sync(limit=1)
        print("ready", flush=True)
        if source.endswith(".jsonl"):
            saved.load_export_sync(source)
        else:
            saved.import_from_sync(source, format="pydantic-ai")
        print("done", flush=True)
