"""The work of all_cores.escript: plain Python that computes and never waits."""

import os


def primes(start: int, stop: int) -> tuple[int, int]:
    """How many primes there are from start to stop, and the process that has counted them."""
    count = 0
    for number in range(max(start, 2), stop):
        divisor = 2
        while divisor * divisor <= number and number % divisor:
            divisor += 1
        count += divisor * divisor > number
    return os.getpid(), count
