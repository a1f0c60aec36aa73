"""Judge vLLM as a target: the installed package, or its compiled operators alone."""
