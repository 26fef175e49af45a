"""The suite: one file a hazard, and the controls. `pytest --pyargs enginechaos` collects it."""
