"""Provide the targets: implementations that the suite can judge."""
