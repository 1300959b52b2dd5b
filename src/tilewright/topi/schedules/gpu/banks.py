"""Banks of shared memory: in how many turns the accesses of threads side by side are served.

Words of four bytes lie in 32 banks in turn. What reads or writes several words a thread is served
for as many threads at a time as 128 bytes are for; words that several read are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

WORD = 4
BANKS = 32


def turns(places: Sequence[int], nbytes: int) -> float:
    """Turns an access, of `nbytes` at a byte offset for each thread in order; 1 where none meet."""
    words = max(1, nbytes // WORD)
    group = max(1, BANKS // words)
    taken = 0
    for start in range(0, len(places), group):
        at = {p // WORD + n for p in places[start : start + group] for n in range(words)}
        taken += max(Counter(word % BANKS for word in at).values())
    return taken / max(1, -(-len(places) // group))
