"""`python -m enginewatch`."""

from enginewatch.cli import main

main()
