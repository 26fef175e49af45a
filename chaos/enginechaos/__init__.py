"""enginechaos: induces each hazard against a serving engine and sees the page come and go."""
