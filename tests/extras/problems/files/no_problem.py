"""A module without `get_inputs`."""

from torch import nn

seq_len = 16


class Model(nn.Module):
    pass
