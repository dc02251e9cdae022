"""Names and forms of lagom and Syllabus, for code that was written for them."""
