"""Rule files in, alerts out: loading, templates, the state machine, rule tests."""
