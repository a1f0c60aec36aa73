"""How fast targets gather: on a GPU beside a device copy of as many bytes, on the CPU in rows a second.

Times stand in no test; what is compared was measured in one run.
"""
