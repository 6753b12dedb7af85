"""How much of a picture an eavesdropper can see in what crosses a cut. Needs the extra `train`."""
