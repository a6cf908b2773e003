"""Particles in NumPy arrays: neighbours are found once, positions are relaxed first, then simulated step by step."""

import time

import numpy as np


class Cloud:
    def __init__(self, count, seed):
        random = np.random.default_rng(seed)
        self.place = random.random((count, 3))
        self.speed = np.zeros_like(self.place)
        distance = ((self.place[:, None] - self.place[None]) ** 2).sum(-1)
        self.near = np.argsort(distance, axis=1)[:, 1:17]

    def advance(self, span):
        away = self.place[self.near] - self.place[:, None]
        length = np.sqrt((away**2).sum(-1, keepdims=True)) + 1e-3
        self.speed += span * (away * (1 - 0.1 / length)).sum(1)
        self.speed *= 0.99
        self.place += span * self.speed

    def energy(self):
        return float((self.speed**2).sum())


def relax(cloud):
    while cloud.energy() < 1e-3:
        cloud.advance(1e-4)


cloud = Cloud(2500, 1)
relax(cloud)
begun = time.monotonic()
energies = []
for _ in range(500):
    cloud.advance(1e-3)
    energies.append(cloud.energy())
print("seconds", time.monotonic() - begun, energies[-1])
