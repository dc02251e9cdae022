"""What passes between environment and agent: shapes, dtypes and bounds of both directions."""
