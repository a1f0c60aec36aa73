"""The golden model: pure functions on NumPy arrays, one module a subject of SPEC.md, and a second model in PyTorch.

Nothing here knows a target, a file format or pytest. bf16 travels as its encoding in uint16, so that -0 and NaN are
compared as they are.
"""
