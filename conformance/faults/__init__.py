"""Model known faults. Each model predicts the bytes that a target with the fault writes."""
