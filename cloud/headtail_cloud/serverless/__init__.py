"""A tail as a function: one model from a bundle, with no daemon beside it.

    function        the function itself: bytes in, bytes out
    cloud_event     CloudEvents 1.0 over HTTP, binary and structured
    aws_lambda      a handler for AWS Lambda and what follows its interface
    container       an HTTP server for Knative, Cloud Run and the like

`function`, `cloud_event` and `aws_lambda` need the base installation only.
"""
