"""The OpenAI API for texts, as its clients use it: `/v1/models`, `/v1/chat/completions`,
`/v1/completions`, `/v1/embeddings`.

message      requests: what they may say, and what of it this server does
text_cutter  tokens to text that may be shown, cut where it is to stop
service      a request's way through the runtime
answer       what a caller gets, at once or as it comes
routes       the same over HTTP
"""
