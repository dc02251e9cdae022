"""Child processes: started from a specification, commanded, watched, named when they fail."""
