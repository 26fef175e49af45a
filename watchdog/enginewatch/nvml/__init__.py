"""What the GPU helper process runs, `python -m enginewatch.nvml`: NVML read in rounds.

A call into a driver that hangs can't be taken back, so it is made in a process that
can be abandoned. That process needs nothing of the rest but Python and `pynvml`.
"""
