"""Networks in torch, for training only: what runs is ONNX."""
