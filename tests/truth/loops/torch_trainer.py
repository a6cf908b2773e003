"""A class that builds its data and model when it is made, and trains in a method; evaluates after each epoch."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, rows, width):
        noise = torch.randn(rows, width)
        self.table = TensorDataset(torch.sort(noise, dim=1).values, noise.mean(1, keepdim=True))
        self.model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-2)

    def epoch(self):
        for inputs, wanted in DataLoader(self.table, batch_size=256, shuffle=True):
            self.optimizer.zero_grad()
            nn.functional.mse_loss(self.model(inputs), wanted).backward()
            self.optimizer.step()

    @torch.no_grad()
    def error(self):
        inputs, wanted = self.table.tensors
        return float(nn.functional.mse_loss(self.model(inputs), wanted))

    def fit(self, epochs):
        begun = time.monotonic()
        for _ in range(epochs):
            self.epoch()
            self.error()
        print("seconds", time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rows", type=int, default=30_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    Trainer(asked.rows, 192).fit(asked.epochs)


if __name__ == "__main__":
    main()
