"""Provide the kernels of this suite, built for the GPU in this machine, for any GPU, or for the CPU.

The package implements SPEC.md and imports nothing of the golden model that judges it. Start at `kernels.ops` and
`kernels.writer`.
"""
