"""What can be judged."""
