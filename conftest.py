"""Loads the gate's options and fixtures."""

pytest_plugins = ["conformance.running.keeping", "conformance.running.plugin"]
