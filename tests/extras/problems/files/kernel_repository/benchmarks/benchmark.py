"""Workloads in the shape of those of `kernels benchmark`, each with one trap."""

import torch
from kernels.benchmark import Benchmark
from torch import Tensor


class Products(Benchmark):
    seed = 7

    def setup(self) -> None:
        self.x, self.y = (torch.randn(16, 16, device=self.device, dtype=torch.float16) for _ in "xy")
        self.rows = len(self.x)
        self.out = torch.empty(16, 16, device=self.device, dtype=torch.float16)

    def setup_wide(self) -> None:
        self.setup()
        self.y = torch.randn(16, 32, device=self.device, dtype=torch.float16)
        self.out = torch.empty(16, 32, device=self.device, dtype=torch.float16)

    def benchmark_small(self) -> None:
        self.kernel.scaled_product(self.out, self.x, self.y)

    benchmark_wide = benchmark_small

    def benchmark_wrong(self) -> None:
        self.kernel.scaled_product(self.out, self.x, self.y * 1.1)

    def benchmark_unverified(self) -> None:
        self.kernel.scaled_product(self.out, self.x, self.y)

    def verify_small(self) -> Tensor:
        return 0.5 * self.x @ self.y

    def verify_wide(self) -> Tensor:
        return 0.5 * self.x @ self.y

    def verify_wrong(self) -> Tensor:
        return 0.5 * self.x @ self.y


class Sums(Benchmark):
    def setup(self) -> None:
        self.x = torch.randn(8, 4, device=self.device)
        self.out = torch.zeros(8, 4, device=self.device)

    def benchmark_small(self) -> None:
        self.out = self.x.cumsum(0)

    def verify_small(self) -> Tensor:
        return self.x.new_ones(8, 8).tril() @ self.x

    def benchmark_accumulated(self) -> None:
        self.kernel.accumulated(self.out, self.x)

    def verify_accumulated(self) -> Tensor:
        return self.x.clone()

    def setup_listed(self) -> None:
        self.setup()
        self.weights = [torch.randn(4, device=self.device) for _ in range(2)]

    def benchmark_listed(self) -> None:
        self.out = self.x * self.weights[0] + self.weights[1]

    def verify_listed(self) -> Tensor:
        return self.weights[1] + self.weights[0] * self.x
