"""From a case that fails to a small one that still does: fewer requests, rows, blocks, bytes and smaller numbers."""

from conformance.shrinking.search import shrink

__all__ = ["shrink"]
