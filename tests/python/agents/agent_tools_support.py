"""Helpers of the tests of tools."""

from turntree.upp import scripted, tool


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def asking(*calls, then="Done."):
    """A model that makes these calls and then answers."""
    return scripted([list(calls), then])


def results(turn):
    """Result and error mark of each call, in the order of the calls."""
    return [(result.result, result.is_error) for result in turn.messages[2].results]


# What the model reads


def failing(error):
    @tool(name="fail")
    def fail():
        raise error

    return fail
