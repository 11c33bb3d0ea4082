"""Proofs about changes of policies: what a change can do, and requests that show a difference."""
