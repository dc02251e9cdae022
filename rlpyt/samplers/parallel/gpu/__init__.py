"""Workers whose actions come from the process that holds the agent, on a GPU or not."""
