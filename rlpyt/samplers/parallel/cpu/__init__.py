"""Workers that act for their environments themselves."""
