"""Helpers of the tests of tools."""

from turntree.upp import scripted, tool


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}


def asking(*calls, then="Done."):
    """A scripted model that makes these tool calls and then answers."""
    return scripted([list(calls), then])


def results(turn):
    """Result and error flag of each call, in call order."""
    return [(result.result, result.is_error) for result in turn.messages[2].results]


# Results sent to the model


def failing(error):
    @tool(name="fail")
    def fail():
        raise error

    return fail
