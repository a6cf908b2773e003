"""A pool whose workers prepare a table once; then the parent hands them rows, frame by frame."""

import multiprocessing
import time

import numpy as np

WIDTH = 700


def prepare():
    global field
    field = np.add.outer(np.linspace(-2, 1, WIDTH), 1j * np.linspace(-1, 1, WIDTH))


def render(job):
    frame, first = job
    here = field[first : first + 100] * (1 + frame / 100)
    z = np.zeros_like(here)
    for _ in range(20):
        z = np.where(abs(z) < 2, z * z + here, z)
    return float((abs(z) < 2).sum())


def main():
    with multiprocessing.get_context("fork").Pool(2, prepare) as pool:
        begun = time.monotonic()
        inside = [sum(pool.map(render, [(frame, first) for first in range(0, WIDTH, 100)])) for frame in range(10)]
        print("seconds", time.monotonic() - begun, inside[-1])


if __name__ == "__main__":
    main()
