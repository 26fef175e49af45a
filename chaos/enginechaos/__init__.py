"""enginechaos: induces each hazard against a serving engine and sees the page arrive and resolve."""
