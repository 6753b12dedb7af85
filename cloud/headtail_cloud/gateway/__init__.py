"""The HTTP gateway: what a caller may ask and how it is told. Needs the extra `cloud`.

app        routes
limits     sizes, times and numbers, before a route sees a request
service    models and the runtime behind them
failure    what went wrong, as an HTTP answer
"""
