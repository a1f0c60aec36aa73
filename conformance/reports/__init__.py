"""From the outcomes of tests to verdicts and reports: knows no pytest."""
