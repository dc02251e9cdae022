"""Steps per second of rlpyt and of its peers, measured side by side."""
