"""Scripts that train one run each, as launchers start them, and scripts that launch many."""
