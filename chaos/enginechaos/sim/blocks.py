"""The KV cache as a pool of blocks: taken as sequences grow, given back whole, found again by
prefix.

As vLLM's (v1/core/block_pool.py): block 0 is never given out, a freed block keeps what it holds
until it is taken again, and the longest free block is taken first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockPool:
    """`blocks` of `block_size` tokens each, one of them never given out."""

    def __init__(self, blocks: int, block_size: int, *, caching: bool = True):
        self.block_size = block_size
        self.capacity = blocks - 1
        self._caching = caching
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, blocks))
        self._references: dict[int, int] = {}
        self._prefix_of: dict[int, int] = {}
        self._block_of: dict[int, int] = {}
        self._tables: dict[str, list[int]] = {}

    @property
    def free(self) -> int:
        """Blocks that can be taken; what a former owner left in them may still be found."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """From 0 to 1, as `vllm:kv_cache_usage_perc`."""
        return 1 - self.free / self.capacity if self.capacity else 0.0

    def needed(self, owner: str, tokens: int) -> int:
        """Blocks still to be taken for `owner` to hold `tokens`."""
        held = len(self._tables.get(owner, ()))
        return max(0, -(-tokens // self.block_size) - held)

    def take(self, owner: str, tokens: int) -> bool:
        """Let `owner` hold `tokens`; False, and nothing taken, where the pool has too few
        blocks."""
        needed = self.needed(owner, tokens)
        if needed > self.free:
            return False
        table = self._tables.setdefault(owner, [])
        for _ in range(needed):
            block, _ = self._free.popitem(last=False)
            prefix = self._prefix_of.pop(block, None)
            if prefix is not None and self._block_of.get(prefix) == block:
                del self._block_of[prefix]
            self._references[block] = 1
            table.append(block)
        return True

    def share(self, owner: str, prefixes: Sequence[int]) -> int:
        """Give `owner`, who holds nothing yet, the blocks of known prefixes; how many tokens."""
        if not self._caching:
            return 0
        table: list[int] = []
        for prefix in prefixes:
            block = self._block_of.get(prefix)
            if block is None:
                break
            self._free.pop(block, None)
            self._references[block] = self._references.get(block, 0) + 1
            table.append(block)
        if table:
            self._tables[owner] = table
        return len(table) * self.block_size

    def remember(self, owner: str, prefixes: Sequence[int]) -> None:
        """The first blocks of `owner` are full and hold these prefixes."""
        if not self._caching:
            return
        for block, prefix in zip(self._tables.get(owner, ()), prefixes, strict=False):
            if block not in self._prefix_of and prefix not in self._block_of:
                self._prefix_of[block] = prefix
                self._block_of[prefix] = block

    def give_back(self, owner: str) -> None:
        """All that `owner` holds; the end of a sequence is forgotten before its beginning."""
        for block in reversed(self._tables.pop(owner, ())):
            self._references[block] -= 1
            if not self._references[block]:
                del self._references[block]
                self._free[block] = None

    def prefixes(self, tokens: Sequence[int]) -> list[int]:
        """One hash for every full block of `tokens`, each of all that stands before its end."""
        found: list[int] = []
        last = 0
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            last = hash((last, *tokens[end - self.block_size : end]))
            found.append(last)
        return found
