"""vLLM as a target: the installed package, and its compiled operators alone."""
