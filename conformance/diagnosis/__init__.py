"""Find the known faults that explain a difference. Reports, replay and show ask for that; a judge never does."""
