"""Ctrl-C between two items of a synchronous loop stops the run, also while the traceback is kept, as notebooks do."""

import sys

import pytest

from turntree import agent, session
from turntree.upp import ErrorCode, Reply, UPPError, llm, scripted

MODULES = ("turntree._streams", "turntree._agent_stream")


def interrupt(frame, event, arg):
    """Raise KeyboardInterrupt when a function of turntree is called: Python calls handlers of signals there."""
    if event == "call" and frame.f_globals.get("__name__") in MODULES:
        sys.setprofile(None)
        raise KeyboardInterrupt


def stream_of(make):
    model = scripted([Reply("one two three four five", pace=0.01)])
    owner = session(agent(model=model)) if make is session else make(model=model)
    return owner.stream_sync("Go")


@pytest.mark.parametrize("make", [agent, llm, session])
def test_ctrl_c_between_two_pieces_of_text_stops_the_run(make):
    stream = stream_of(make)
    with pytest.raises(KeyboardInterrupt) as kept:
        for _ in stream.text():
            sys.setprofile(interrupt)

    with pytest.raises(UPPError) as caught:
        _ = stream.turn
    assert caught.value.code == ErrorCode.CANCELLED
    assert [entry.name for entry in kept.traceback][-2:] == ["_text_of", "interrupt"]


@pytest.mark.parametrize("make", [agent, llm, session])
@pytest.mark.parametrize("items", ["text", "__iter__"])
def test_ctrl_c_in_the_body_of_the_loop_stops_the_run(make, items):
    stream = stream_of(make)
    with pytest.raises(KeyboardInterrupt):
        for _ in getattr(stream, items)():
            raise KeyboardInterrupt

    with pytest.raises(UPPError) as caught:
        _ = stream.turn
    assert caught.value.code == ErrorCode.CANCELLED
