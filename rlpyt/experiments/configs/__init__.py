"""Settings of rlpyt (2020), for its scripts; the data is in ``rlpyt.json``."""
