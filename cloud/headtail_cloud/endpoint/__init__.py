"""The ZeroMQ endpoint: edges (and devices) ask here as they ask an edge.

tensors    a request's tensor on its way in, an answer's on its way out
edges      sessions, requests and refusals, between the port and the runtime
"""
