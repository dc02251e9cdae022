"""Child processes: started from a specification, controlled by commands, watched for failures."""
