"""Identify how a writer quantizes."""
