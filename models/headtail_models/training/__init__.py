"""Training: one loop for every job; what differs is a recipe and a job. Needs the extra `train`."""
