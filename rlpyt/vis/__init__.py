"""Pictures of runs: learning curves with honest intervals."""
