"""The curated vectors of fixtures/vectors: their descriptions, what they are written and checked by, and a runner."""
