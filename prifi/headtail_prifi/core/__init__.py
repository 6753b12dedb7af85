"""What all roles share: parties, geometry, frames, messages, membership."""
