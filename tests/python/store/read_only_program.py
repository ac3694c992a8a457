"""Uses a store as another user: read_only_program.py URL [read_only]. Prints what was read, and the errors."""

import asyncio
import os
import sys
import urllib.parse  # noqa: F401 -- turntree imports it late, and the other user may not read the library of Python

from turntree import Session, StoreError, agent, store
from turntree.upp import scripted

HELPER = agent(id="5d7a2b0c-6c0e-4f57-9f0a-0e2f5f7f1a11", model=scripted(lambda request: "Noted."))
NOBODY = 65534


def change_user() -> None:
    """Become a user that can write none of the files. Root can write everything."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


async def main(url: str, *options: str) -> None:
    """Read the session "s", try to continue it, and try to delete it."""
    change_user()
    path = url.removeprefix("sqlite:///")
    async with store.sqlite(path, read_only=True) if "read_only" in options else store.from_url(url) as saved:
        try:
            ids = [info.id for info in await saved.sessions()]
            session = await Session.load(saved, "s", HELPER)
            print("read", ids, [message.text for message in session.tree.history()], await saved.check())
            await session.run("Again")
        except StoreError as error:
            print(f"run: {error}")
        try:
            print("deleted", await saved.delete("s"))
        except StoreError as error:
            print(f"delete: {error}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
