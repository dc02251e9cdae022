"""Which task each episode has: curricula, and how their choices reach environments."""
