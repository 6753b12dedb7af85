"""Readers of public data sets that lie on disk; none of the data is part of Headtail."""
