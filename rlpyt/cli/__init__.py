"""The ``rlpyt`` command, a thin typed layer over the objects that scripts use."""
