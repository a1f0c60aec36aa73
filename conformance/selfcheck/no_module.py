"""A module that ends the process when it is imported, as scripts do."""

import sys

sys.exit("this module cannot be used")
