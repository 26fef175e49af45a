"""An LLM serving engine without a GPU or a model: its failures come from how it works, not from
flags.

`python -m enginechaos.sim --config sim.yml` starts it. Pure core (the clock is an argument):
`blocks`, `scheduler`, `memory`, `timing`, `damage`, `answers`, `engine`. Processes: `serve` (the
API server), `core` (the step loop), `rank` (one tensor-parallel worker). What it says of itself is
in `dialects`, one file an engine; `gpu` stands in for NVML.
"""
