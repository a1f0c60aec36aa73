"""Known faults, as models that predict what a target with the fault writes."""
