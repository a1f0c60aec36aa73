"""A module that ends the worker which imports it."""

import os

from conformance.targets.models import NumpyTarget

if "PYTEST_XDIST_WORKER" in os.environ:
    os._exit(3)


class Target(NumpyTarget):
    pass
