"""Load the pytest plugins of the suite: options, hooks, and messages between the processes of a run."""

from conformance.machine import share_threads

share_threads()  # before anything loads NumPy

pytest_plugins = [
    "conformance.running.pinning",  # first: no worker may have seen a device before it is pinned to its own
    "conformance.running.old_reports",
    "conformance.running.selecting",
    "conformance.running.keeping",
    "conformance.running.plugin",
    "conformance.running.leaving_out",
    "conformance.running.examples",
    "conformance.running.campaign",
    "conformance.running.containing",
    "conformance.running.junit",
    "conformance.running.progress",
]
