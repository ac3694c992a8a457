"""How many random cases property tests try.

`make test` uses fixed seeds: it fails by a fault of a change, not by luck. `make test-long` tries more cases, with
random seeds.
"""

import os

FACTOR = int(os.environ.get("TURNTREE_LAW_FACTOR", "1"))
"""`TURNTREE_LAW_FACTOR`: how many times as many cases, with a random seed. Default: 1, with a fixed seed."""


def cases(number: int) -> int:
    """The number of random cases for a test that tries `number` of them in `make test`."""
    return number * FACTOR
