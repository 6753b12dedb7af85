"""Where nodes come in: each link turns bytes of one kind into messages, and back."""
