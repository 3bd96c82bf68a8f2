"""Workloads in PyTorch, eagerly."""

from typing import Any

import torch

from hybrid.bench.adapters.serve import Program, serve
from hybrid.bench.problems import SMALL, STEP, lstm_problem, newton_start


def while_loop() -> Program:
    start = torch.from_numpy(newton_start())

    def run() -> torch.Tensor:
        x = start
        while x.abs().max() > SMALL:
            x = x - STEP * torch.sin(x)
        return x

    return Program(run, lambda x: x / SMALL)


def lstm_loop() -> Program:
    problem = lstm_problem()
    inputs = torch.from_numpy(problem.inputs)
    cell = torch.nn.LSTMCell(inputs.shape[2], problem.hidden)
    with torch.no_grad():
        for parameter, values in zip(
            (cell.weight_ih, cell.weight_hh, cell.bias_ih), problem.parameters, strict=True
        ):
            parameter.copy_(torch.from_numpy(values))
        cell.bias_hh.zero_()
    zeros = torch.zeros(inputs.shape[1], problem.hidden)

    def run() -> Any:
        cell.zero_grad()
        state = zeros, zeros
        for x in inputs:
            state = cell(x, state)
        loss = (state[0] * state[0]).mean()
        loss.backward()
        return loss

    def read(loss: Any) -> list[float]:
        gradients = cell.weight_ih.grad, cell.weight_hh.grad, cell.bias_ih.grad
        return [loss.item(), *[float((g * g).sum()) for g in gradients]]

    return Program(run, read)


PROGRAMS = {"while_loop": while_loop, "lstm_loop": lstm_loop}

if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(PROGRAMS)
