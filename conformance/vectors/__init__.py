"""Hold the curated vectors of fixtures/vectors: their descriptions, their writer and checks, and a runner."""
