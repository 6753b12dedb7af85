"""Pictures in, boxes out: what surrounds a detector, in numpy, the same on both sides of a cut."""
