"""The bundle: the unit of deployment, that both sides of a cut agree on by its digest."""
