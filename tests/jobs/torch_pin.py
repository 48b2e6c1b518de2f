"""PyTorch's own pin-memory thread on a machine without CUDA.

Without a CUDA device `pin_memory=True` starts no thread. Inside `stand_in(True)` PyTorch believes
in a device while it builds the loader's iterator, and pinning a tensor is copying it; the thread,
its queues and its code are PyTorch's own.
"""

import contextlib

import torch


@contextlib.contextmanager
def stand_in(wanted):
    """While inside, PyTorch's pin-memory thread runs, if `wanted`."""
    if not wanted:
        yield
        return
    kept = torch.cuda.is_available, torch.cuda.current_device, torch.cuda.set_device, torch.Tensor.pin_memory
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    torch.Tensor.pin_memory = lambda tensor, device=None: tensor.clone()
    try:
        yield
    finally:
        torch.cuda.is_available, torch.cuda.current_device, torch.cuda.set_device, torch.Tensor.pin_memory = kept
