"""Action distributions: sampling, likelihoods, entropies."""
