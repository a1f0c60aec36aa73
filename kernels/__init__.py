"""The kernels of this suite, and three ways to build them: for the GPU that is there, for any GPU, for the CPU.

The package knows SPEC.md and nothing of the golden model that judges it. Start at `kernels.ops` and
`kernels.writer`.
"""
