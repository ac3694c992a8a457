"""Interrupts and process exit while agents run."""

import signal
import subprocess
import sys
import textwrap

import pytest

# Interrupts


def run_script(source, *, interrupts=False):
    """Run a script in a separate interpreter; send it SIGINT after it prints READY."""
    # Background jobs of a shell ignore SIGINT and their children inherit that, so the default handler is set here.
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", listens + textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if interrupts:
            assert process.stdout.readline().strip() == "READY"
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)  # only detects a hang
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "way", ["helper.run_sync('Hi')", "asyncio.run(helper.run('Hi'))", "list(helper.stream_sync('Hi'))"]
)
def test_ctrl_c_interrupts_a_run_that_waits_for_the_model(way):
    code, out, err = run_script(
        f"""
        import asyncio, threading
        from turntree import agent
        from turntree.testing import Reply, serve
        from turntree.upp import openai

        with serve(Reply("late", delay=60)) as server:
            helper = agent(model=openai("gpt", "completions", base_url=server.base_url, api_key="key"))

            def ready():
                server.wait_for_request(timeout=60)
                print("READY", flush=True)

            threading.Thread(target=ready).start()
            try:
                {way}
            except KeyboardInterrupt:
                print("interrupted", server.requests[0].wait(30))
        """,
        interrupts=True,
    )

    assert (code, out.strip(), err) == (0, "interrupted dropped", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_keyboard_interrupt_in_an_async_tool_ends_asyncio_run():
    code, out, err = run_script(
        """
        import asyncio
        from turntree import agent
        from turntree.upp import scripted

        async def stop():
            raise KeyboardInterrupt

        helper = agent(model=scripted([[{"toolName": "stop", "arguments": {}}], "x"]), tools=[stop])
        try:
            asyncio.run(helper.run("Hi"))
        except KeyboardInterrupt:
            print("interrupted")
        """
    )

    assert (code, out.strip(), err) == (0, "interrupted", "")


@pytest.mark.parametrize("way", ["forget", "exit", "raise"])
def test_process_exits_cleanly_during_runs(way):
    ending = {"forget": "pass", "exit": "raise SystemExit(0)", "raise": "import os; os._exit(0)"}[way]
    code, _, err = run_script(
        f"""
        import asyncio, threading
        from turntree import agent
        from turntree.testing import Reply, serve
        from turntree.upp import openai

        server = serve(Reply("one two three " * 200, gap=0.001))
        helper = agent(model=openai("gpt", "completions", base_url=server.base_url, api_key="key"))

        async def main():
            tasks = [asyncio.ensure_future(helper.run("Hi")) for _ in range(20)]
            streams = [helper.stream("Hi") for _ in range(20)]
            for stream in streams:
                await anext(stream)
            threading.Thread(target=helper.run_sync, args=("Hi",), daemon=True).start()
            await asyncio.to_thread(server.wait_for_request, 41, timeout=60)  # that of the thread too
            {ending}

        asyncio.run(main())
        """
    )

    assert (code, err) == (0, "")
