"""The measurement of growth tells linear work from work that grows faster, also on a busy machine."""

import random
from collections.abc import Callable

import pytest
from growth_support import BOUND, Operation, growth, smallest_ratio

COSTS: dict[str, Callable[[int], float]] = {
    "constant": lambda n: 50.0,
    "linear": lambda n: n,
    "linear after a constant": lambda n: 100.0 + n,
    "linear with a logarithm": lambda n: n * n.bit_length(),
}
STEEP: dict[str, Callable[[int], float]] = {
    "quadratic": lambda n: n**2,
    "a quadratic third": lambda n: n + n**2 / 600,
    "quadratic with a logarithm": lambda n: n**2 * n.bit_length(),
    "cubic": lambda n: n**3,
}


class BusyMachine:
    """A clock on which an operation costs what a function says, and up to three times that while others work."""

    def __init__(self, seed: int, cost: Callable[[int], float], busy: float) -> None:
        self.random = random.Random(seed)
        self.cost = cost
        self.busy = busy
        self.now = 0.0

    def prepare(self, size: int) -> Operation:
        def operation() -> None:
            noise = self.random.uniform(0, 2) if self.random.random() < self.busy else self.random.uniform(0, 0.05)
            self.now += self.cost(size) * (1 + noise)

        return operation

    def growth(self) -> float:
        return smallest_ratio(self.prepare, 300, clock=lambda: self.now)


@pytest.mark.parametrize("name", COSTS)
def test_linear_work_is_below_the_bound_while_other_processes_disturb_two_of_three_samples(name: str) -> None:
    ratios = [BusyMachine(seed, COSTS[name], 2 / 3).growth() for seed in range(300)]

    assert max(ratios) < BOUND


@pytest.mark.parametrize("name", STEEP)
def test_work_that_grows_faster_is_over_the_bound(name: str) -> None:
    ratios = [BusyMachine(seed, STEEP[name], 0.0).growth() for seed in range(300)]

    assert min(ratios) >= BOUND


def test_a_list_that_is_searched_for_each_element_is_over_the_bound() -> None:
    def prepare(size: int) -> Operation:
        numbers = list(range(size))
        return lambda: [number in numbers for number in reversed(numbers)]

    assert growth(prepare, 1000) >= BOUND


def test_a_list_that_is_copied_is_below_the_bound() -> None:
    def prepare(size: int) -> Operation:
        numbers = list(range(size))
        return lambda: [number + 1 for number in numbers]

    assert growth(prepare, 1000) < BOUND
