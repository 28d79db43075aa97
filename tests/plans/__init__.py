"""Plans carried out without C: each node in Python, as the planner means it."""
