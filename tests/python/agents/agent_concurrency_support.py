"""Helpers of the tests of concurrent runs."""

WORDS = "one two three four five six seven eight nine ten"


def call(name, /, **arguments):
    """A tool call as a script writes it."""
    return {"toolName": name, "arguments": arguments}
