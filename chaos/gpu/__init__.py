"""A real stall of a rank group: PyTorch ranks over NCCL or gloo, watched by the real daemon."""
