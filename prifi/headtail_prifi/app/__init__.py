"""What programs see of the DC-net: anonymous datagrams and streams."""
