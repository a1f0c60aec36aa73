"""The pytest side: options, hooks, and what goes between the processes of a run."""
