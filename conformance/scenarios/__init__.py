"""Simulate a scheduler over a paged cache (requests, blocks, steps), and drive a target through it."""
