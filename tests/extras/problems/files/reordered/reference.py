import torch


def make(axes_and_scalars, device):
    rows, half = axes_and_scalars["rows"], axes_and_scalars["half"]
    return {
        "rows_of_x": torch.rand(rows, half, device=device),
        "order": torch.randperm(rows, device=torch.device(device.type)),
        "matrix": torch.rand(half, axes_and_scalars["width"], device=device),
    }


def run(rows_of_x, order, matrix):
    y = rows_of_x[order] @ matrix
    return torch.cat([y, y.new_ones(rows_of_x.shape[1], y.shape[1])])
