"""Measure the speed of gathers: on a GPU beside a device copy of as many bytes, on the CPU in rows a second.

No test depends on times. Compared times come from one run.
"""
