"""`python -m enginechaos`."""

from enginechaos.cli import main

main()
