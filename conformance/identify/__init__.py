"""Which way of quantizing a writer has."""
