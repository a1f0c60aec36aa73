"""Loads the gate's options and fixtures."""

pytest_plugins = ["conformance.running"]
