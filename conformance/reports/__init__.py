"""Turn the outcomes of tests into verdicts and reports. Imports no pytest."""
