"""What every part of Headtail shares: wire format, codecs, keys, links, clock, errors, config."""
