"""Others that can do the same work. Each raises `Missing` with the reason when it is not installed."""
