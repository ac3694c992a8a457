"""Every one of the 87 points of the checklist has a test with its number."""

import re
from pathlib import Path

# Points that no test can verify, with the reason.
NOT_BEHAVIOUR = {
    86: "a permission: further strategies, middleware and adapters have tests of their own",
    87: "says what is not required; guardrails, memory and budget exist and have tests of their own",
}


def numbers():
    """The numbers in the names of all tests here: `test_uap_27_and_75_…` counts for both."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for name in re.findall(r"def test_uap_((?:\d+_)(?:and_\d+_|\d+_)*)", path.read_text()):
            yield from (int(number) for number in re.findall(r"\d+", name))


def test_every_point_has_a_test():
    found = set(numbers())

    assert set(range(1, 88)) - found - set(NOT_BEHAVIOUR) == set()
    assert found <= set(range(1, 88))
