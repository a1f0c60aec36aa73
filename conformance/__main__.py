"""`python -m conformance`."""

from conformance.cli import app

app(prog_name="python -m conformance")
