"""Networks of continuous control: policies and critics."""
