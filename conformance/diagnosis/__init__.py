"""Which known fault explains a difference: one engine, asked by reports, replay and show, never by a judge."""
