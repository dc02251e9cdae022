"""Models of action values: for images and vectors, dueling, distributional, noisy, recurrent."""
