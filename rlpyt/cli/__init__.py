"""The ``rlpyt`` command: thin, typed, over the same objects that a script uses."""
