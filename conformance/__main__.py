"""`python -m conformance`."""

from conformance.machine import share_threads

share_threads()  # before anything loads NumPy

from conformance.cli import app  # noqa: E402

app(prog_name="python -m conformance")
