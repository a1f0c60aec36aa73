"""What a fixture says, for a terminal and as a page: where it differs, how it lies, what is known to do the same."""
