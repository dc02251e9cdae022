"""Protocols, names and forms of rlpyt (2019), lagom and Syllabus, for code written for them."""
