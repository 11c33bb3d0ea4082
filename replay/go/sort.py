"""Order of elements after Go's `sort.Slice`, including elements that compare equal or not at all.

The sort is not stable. It is pattern-defeating quicksort (Orson Peters, arXiv 2106.05123) with fixed parameters and a
fixed pseudorandom sequence. If all keys differ, any sort gives the same list. `sortBy` over more than a dozen elements
with equal keys, and lists with NaN, need the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

_SHORT = 12
_NINTHER = 50
_MAX_SWAPS = 12
_MAX_STEPS = 5
_MASK = 2**64 - 1


class _Hint(Enum):
    UNKNOWN = 0
    INCREASING = 1
    DECREASING = 2


def go_sorted(size: int, less: Callable[[int, int], bool]) -> list[int]:
    """Return the positions 0 to `size - 1` in sorted order. `less` compares two positions."""
    order = list(range(size))
    _Sorter(order, less).sort(0, size, size.bit_length())
    return order


class _Sorter:
    """Sorter of `items` in place, by ranges `[low, high)`."""

    def __init__(self, items: list[int], less: Callable[[int, int], bool]) -> None:
        self._items = items
        self._less = less

    def _before(self, i: int, j: int) -> bool:
        return self._less(self._items[i], self._items[j])

    def _swap(self, i: int, j: int) -> None:
        items = self._items
        items[i], items[j] = items[j], items[i]

    def sort(self, low: int, high: int, bad_choices_left: int) -> None:
        balanced = partitioned = True
        while high - low > _SHORT:
            size = high - low
            # Too many unbalanced partitions: heap sort bounds the time.
            if bad_choices_left == 0:
                self._heap_sort(low, size)
                return
            if not balanced:
                self._scatter(low, size)
                bad_choices_left -= 1
            pivot, hint = self._pivot(low, size)
            if hint is _Hint.DECREASING:
                self._items[low:high] = self._items[low:high][::-1]
                pivot, hint = high - 1 - (pivot - low), _Hint.INCREASING
            if balanced and partitioned and hint is _Hint.INCREASING and self._nearly_sorted(low, high):
                return
            # The element before the range is an earlier pivot: nothing here is less, so many may equal it.
            if low > 0 and not self._before(low - 1, pivot):
                low = self._partition_equal(low, high, pivot)
                continue
            middle, partitioned = self._partition(low, high, pivot)
            balanced = min(middle - low, high - middle) >= size // 8
            # Recursion into the shorter side only keeps it shallow.
            if middle - low < high - middle:
                self.sort(low, middle, bad_choices_left)
                low = middle + 1
            else:
                self.sort(middle + 1, high, bad_choices_left)
                high = middle
        self._insert(low, high)

    def _insert(self, low: int, high: int) -> None:
        for start in range(low + 1, high):
            self._sink(start, low)

    def _sink(self, start: int, low: int) -> None:
        """Move an element down past those that it precedes."""
        at = start
        while at > low and self._before(at, at - 1):
            self._swap(at, at - 1)
            at -= 1

    def _heap_sort(self, low: int, size: int) -> None:
        for root in range((size - 1) // 2, -1, -1):
            self._sift_down(root, size, low)
        for last in range(size - 1, -1, -1):
            self._swap(low, low + last)
            self._sift_down(0, last, low)

    def _sift_down(self, root: int, size: int, low: int) -> None:
        while (child := 2 * root + 1) < size:
            if child + 1 < size and self._before(low + child, low + child + 1):
                child += 1
            if not self._before(low + root, low + child):
                return
            self._swap(low + root, low + child)
            root = child

    def _scatter(self, low: int, size: int) -> None:
        """Swap three middle elements with pseudorandom others, to break a bad pattern."""
        state, mask = size, (1 << size.bit_length()) - 1
        middle = low + size // 4 * 2
        for at in range(middle - 1, middle + 2):
            # Xorshift with Go's shifts and Go's seed, the size: other numbers would swap other elements.
            state ^= state << 13 & _MASK
            state ^= state >> 7
            state ^= state << 17 & _MASK
            other = state & mask
            self._swap(at, low + (other - size if other >= size else other))

    def _pivot(self, low: int, size: int) -> tuple[int, _Hint]:
        """Return a median of three, or of nine in long ranges. The number of swaps tells whether the range looks sorted."""
        quarter, swaps = size // 4, 0
        marks = [low + quarter, low + quarter * 2, low + quarter * 3]
        if size >= _NINTHER:
            for index, mark in enumerate(marks):
                marks[index], more = self._median(mark - 1, mark, mark + 1)
                swaps += more
        pivot, more = self._median(*marks)
        swaps += more
        return pivot, {0: _Hint.INCREASING, _MAX_SWAPS: _Hint.DECREASING}.get(swaps, _Hint.UNKNOWN)

    def _median(self, a: int, b: int, c: int) -> tuple[int, int]:
        swaps = 0
        if self._before(b, a):
            a, b, swaps = b, a, swaps + 1
        if self._before(c, b):
            b, c, swaps = c, b, swaps + 1
        if self._before(b, a):
            a, b, swaps = b, a, swaps + 1
        return b, swaps

    def _nearly_sorted(self, low: int, high: int) -> bool:
        """Return whether the range is sorted, possibly after a few swaps in a long range."""
        at = low + 1
        for _ in range(_MAX_STEPS):
            while at < high and not self._before(at, at - 1):
                at += 1
            if at == high:
                return True
            if high - low < _NINTHER:
                return False
            self._swap(at, at - 1)
            if at - low >= 2:
                # Go lets this one run below the range, where nothing is greater.
                self._sink(at - 1, 0)
            if high - at >= 2:
                self._rise(at, high)
        return False

    def _rise(self, start: int, high: int) -> None:
        for at in range(start + 1, high):
            if not self._before(at, at - 1):
                return
            self._swap(at, at - 1)

    def _partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """Move smaller elements before the pivot, and return its new position and whether nothing had to move."""
        self._swap(low, pivot)
        i, j = self._misplaced(low + 1, high - 1, low)
        untouched = i > j
        while i <= j:
            self._swap(i, j)
            i, j = self._misplaced(i + 1, j - 1, low)
        self._swap(j, low)
        return j, untouched

    def _misplaced(self, i: int, j: int, pivot: int) -> tuple[int, int]:
        while i <= j and self._before(i, pivot):
            i += 1
        while i <= j and not self._before(j, pivot):
            j -= 1
        return i, j

    def _partition_equal(self, low: int, high: int, pivot: int) -> int:
        """Move elements equal to the pivot to the start, and return where the greater ones begin."""
        self._swap(low, pivot)
        i, j = low + 1, high - 1
        while True:
            while i <= j and not self._before(low, i):
                i += 1
            while i <= j and self._before(low, j):
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1
