"""Engine logs through the whole signature set: lines a second of one core, and memory over time.

`followed` is a log that is read as it grows, as the daemon does: periodic lines of
one kind are read once a second. `in one go` is `diagnose`, where all are read but those
beyond a hundred of a kind in one second of the log's own. `every line` is what a line costs
that is read in full.
`one by one` asks each pattern in turn, as without the set's single pass.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import psutil
from rich.console import Console
from rich.table import Table

from enginewatch.evidence.pack import shipped_pack
from enginewatch.evidence.reader import LogReader
from enginewatch.evidence.signatures import SignatureSet

TARGET = 200_000
PER_SECOND = 200_000
"""Lines that a followed log is taken to bring in a second."""
WRITTEN_PER_SECOND = 10_000
"""Lines that bear the same second."""


def clock(n: int) -> str:
    second = n // WRITTEN_PER_SECOND
    return f"{second // 3_600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def vllm(count: int) -> Iterator[bytes]:
    """A busy server: each request is told thrice, the periodic line comes once in 2000 lines."""
    for n in range(count):
        at = f"09-07 {clock(n)}"
        match n % 4:
            case _ if n % 2_000 == 0:
                text = (
                    f"(APIServer pid=1) INFO {at} [loggers.py:271] Engine 000:"
                    f" Avg prompt throughput: {n % 999}.0 tokens/s,"
                    f" Avg generation throughput: {n % 77}.4 tokens/s, Running: {n % 9} reqs,"
                    " Waiting: 0 reqs, GPU KV cache usage: 4.1%, Prefix cache hit rate: 0.0%"
                )
            case 0:
                text = (
                    f"(APIServer pid=1) INFO {at} [logger.py:43] Received request chatcmpl-{n}:"
                    " params: SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0,"
                    " repetition_penalty=1.0, temperature=0.7, top_p=0.95, top_k=20, seed=None,"
                    " stop=[], ignore_eos=False, max_tokens=4096, logprobs=None)."
                )
            case 1:
                text = f"(APIServer pid=1) INFO {at} [async_llm.py:270] Added request chatcmpl-{n}."
            case _:
                text = (
                    f'(APIServer pid=1) INFO:     10.0.0.{n % 250}:{n % 60_000} - "POST'
                    ' /v1/chat/completions HTTP/1.1" 200 OK'
                )
        yield text.encode()


def sglang(count: int) -> Iterator[bytes]:
    """A busy server: as many batches as requests."""
    for n in range(count):
        at = f"2026-05-18 {clock(n)}"
        match n % 4:
            case 0:
                text = (
                    f"[{at} TP0] Prefill batch. #new-seq: 1, #new-token: {n % 8192},"
                    f" #cached-token: 0, token usage: 0.42, #running-req: {n % 40}, #queue-req: 0, "
                )
            case 1:
                text = (
                    f"[{at} TP0] Decode batch. #running-req: {n % 40}, #token: {n},"
                    " token usage: 0.44, cuda graph: True, gen throughput (token/s): 1231.31,"
                    " #queue-req: 0, "
                )
            case _:
                text = f'[{at}] INFO:     10.0.0.1:{n % 60_000} - "POST /generate HTTP/1.1" 200 OK'
        yield text.encode()


def storm(count: int) -> Iterator[bytes]:
    """One failure, over and over: each line is read and matched in full."""
    for n in range(count):
        yield (
            f"[rank{n % 8}]:[E1105 {clock(n)}.{n % 1_000:03d} ProcessGroupNCCL.cpp:632]"
            f" [Rank {n % 8}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n},"
            " OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=600000)"
            " ran for 600042 milliseconds before timing out."
        ).encode()


def lines_per_second(lines: Sequence[bytes], read: Callable[[bytes], object]) -> float:
    started = time.process_time()
    for line in lines:
        read(line)
    return len(lines) / (time.process_time() - started)


def speeds(signatures: SignatureSet, count: int) -> Table:
    columns = ("log", "followed", "in one go", "every line", "one by one")
    table = Table(*columns, title="lines a second of one core")
    for name, make in (("vLLM", vllm), ("SGLang", sglang), ("error storm", storm)):
        lines = list(make(count))
        live = lines_per_second(lines, follow(LogReader(signatures)))
        once = lines_per_second(lines, LogReader(signatures).feed)
        every = lines_per_second(lines[: count // 20], unpaced(signatures))
        single = lines_per_second(
            lines[: count // 100], lambda line: [each.search(line) for each in signatures]
        )
        table.add_row(name, f"{live:,.0f}", f"{once:,.0f}", f"{every:,.0f}", f"{single:,.0f}")
    return table


def follow(reader: LogReader) -> Callable[[bytes], object]:
    """Feeds lines with the time at which each would have come."""
    return lambda line: reader.feed(line, reader.number * 1_000 // PER_SECOND)


def unpaced(signatures: SignatureSet) -> Callable[[bytes], object]:
    """Feeds lines as if each had come a minute after the one before."""
    reader = LogReader(signatures)
    return lambda line: reader.feed(line, reader.number * 60_000)


def memory(signatures: SignatureSet, millions: int) -> Table:
    """Resident memory while a followed log goes by."""
    table = Table("million lines", "resident, MB", title="memory over a long log")
    feed = follow(LogReader(signatures))
    pool = itertools.cycle([*vllm(100_000), *sglang(1_000), *storm(20_000)])
    process = psutil.Process()
    at_first = 0.0
    for million in range(millions + 1):
        resident = process.memory_info().rss / 1e6
        if million == 1:
            at_first = resident
        if million in {0, 1, millions} or million % 5 == 0:
            table.add_row(str(million), f"{resident:.1f}")
        for line in itertools.islice(pool, 1_000_000 if million < millions else 0):
            feed(line)
    table.caption = f"grown since the first million: {resident - at_first:+.1f} MB"
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="of each kind of log")
    parser.add_argument("--millions", type=int, default=10, help="of lines for the memory table")
    options = parser.parse_args()
    signatures = shipped_pack().signatures
    patterns = sum(len(each.patterns) for each in signatures)
    console = Console()
    console.print(f"{len(signatures)} signatures, {patterns} patterns; target {TARGET:,} followed")
    console.print(speeds(signatures, options.lines))
    console.print(memory(signatures, options.millions))


if __name__ == "__main__":
    main()
