"""A module that ends its process at once, and says that all is well, when it is imported."""

import os

os._exit(0)
