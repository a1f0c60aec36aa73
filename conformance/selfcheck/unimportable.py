"""A module that ends the worker which imports it, in a way that Python does not see."""

import ctypes
import os

from conformance.targets.models import NumpyTarget

if "PYTEST_XDIST_WORKER" in os.environ:
    ctypes.CDLL(None)._exit(3)


class Target(NumpyTarget):
    pass
