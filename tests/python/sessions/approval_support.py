"""Models for tests of approvals."""

from turntree.upp import scripted


def call(name, /, **arguments):
    return {"toolName": name, "arguments": arguments}


def once(*calls):
    """A model that makes these calls at once, and then says what they returned."""

    def reply(request):
        last = request.messages[-1]
        if last.type == "tool_result":
            return " / ".join(str(result.result) for result in last.results)
        return list(calls)

    return scripted(reply)
