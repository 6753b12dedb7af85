"""`headtail top`: devices, links, placements, queues and batches on one screen.

    address -> scrape (HTTP) -> samples -> reading (two of them: rates) -> screen, or JSON

It reads what Prometheus would read, from daemons that have a metrics port, and keeps nothing.
"""
