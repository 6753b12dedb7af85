"""A small server of the OpenAI API, as a process of its own: `python openai_server.py PORT NAME`.

Its model `echo` says the last message's words, one a chunk; a message `fail` is answered with 503.
"""

import json
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NAME = sys.argv[2]


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "echo", "object": "model"}]})


async def chat(request: Request) -> Response:
    asked = await request.json()
    text = asked["messages"][-1]["content"]
    if text == "fail":
        return JSONResponse({"error": {"message": "no"}}, status_code=503)
    if not asked.get("stream"):
        message = {"role": "assistant", "content": f"{NAME}: {text}"}
        return JSONResponse(_chunk("chat.completion", {"message": message}))
    return StreamingResponse(_stream(text.split()), media_type="text/event-stream")


async def _stream(words: list[str]) -> AsyncIterator[str]:
    for word in words:
        delta = {"role": "assistant", "content": word + " "}
        yield f"data: {json.dumps(_chunk('chat.completion.chunk', {'delta': delta}))}\n\n"
    yield "data: [DONE]\n\n"


def _chunk(kind: str, choice: dict[str, object]) -> dict[str, object]:
    return {
        "id": "1",
        "object": kind,
        "created": 1,
        "model": "echo",
        "choices": [{"index": 0, "finish_reason": None, **choice}],
    }


if __name__ == "__main__":
    app = Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/chat/completions", chat, methods=["POST"]),
        ]
    )
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
