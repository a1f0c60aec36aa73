"""Targets, case generation, comparison, reports and the command line: what judges a target against the golden model."""
