"""A writer that claims a single format, and is to be asked for no other."""

from conformance.targets.models import NumpyTarget


class WritesFp8Only(NumpyTarget):
    capabilities = frozenset({"write.fp8"})
