"""Define the golden model: pure functions on NumPy arrays, one module for each chapter of SPEC.md.

The torch_*.py modules are a second, independent model in PyTorch. No module here imports a target, a file format or
pytest. A bf16 number is passed as its uint16 encoding, so that -0 and NaN are compared bit for bit.
"""
