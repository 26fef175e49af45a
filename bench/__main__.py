"""`make bench`: every table, or those named: `python -m bench parse store`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def main() -> None:
    folder = Path(__file__).parent
    known = sorted(path.stem.removeprefix("bench_") for path in folder.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*known, []], default=known)
    for name in parser.parse_args().tables:
        # A process each, so that one table's memory is not another's.
        subprocess.run([sys.executable, "-m", f"bench.bench_{name}"], check=True)


if __name__ == "__main__":
    main()
