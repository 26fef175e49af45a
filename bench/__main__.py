"""`make bench`: every table, or those named: `python -m bench parse store`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def tables(words: Sequence[str]) -> list[str]:
    """Those named on a command line, or all; a name that is none ends the program with 2."""
    known = sorted(path.stem[6:] for path in Path(__file__).parent.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(known))
    asked: list[str] = parser.parse_args(words).tables
    for name in asked:
        if name not in known:
            parser.error(f"no table is called {name!r}; there are {', '.join(known)}")
    return asked or known


def main() -> None:
    for name in tables(sys.argv[1:]):
        # A process each, so that one table's memory is not another's.
        subprocess.run([sys.executable, "-m", f"bench.bench_{name}"], check=True)


if __name__ == "__main__":
    main()
