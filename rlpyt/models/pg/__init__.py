"""Models of policy-gradient agents: action distribution and value from observations."""
