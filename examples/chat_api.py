"""A chat behind FastAPI: tokens as server-sent events, and a Stop that cancels the model.

    bin/erlang-loop examples/chat_api.py          asks itself
    bin/erlang-loop examples/chat_api.py 8000     serves on a port

A reader that goes away is a Stop, too. token_stream.py imitates the model.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import token_stream
from erlang_loop.asgi import Server
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

app = FastAPI()
answers: dict[str, asyncio.Timeout] = {}
#: Set when an answer ends, however it does.
ended = asyncio.Event()


@app.get("/answers/{name}")
async def stream(name: str, question: str) -> StreamingResponse:
    return StreamingResponse(events(name, question), media_type="text/event-stream")


@app.delete("/answers/{name}")
async def stop(name: str) -> dict[str, str]:
    if name not in answers:
        raise HTTPException(404, "there is no such answer")
    # The timeout is now: the model is cancelled at its await.
    answers[name].reschedule(asyncio.get_running_loop().time())
    return {"stopped": name}


async def events(name: str, question: str) -> AsyncIterator[str]:
    try:
        async with asyncio.timeout(None) as answers[name]:
            async with aclosing(token_stream.answer(question)) as tokens:
                async for token in tokens:
                    yield f"data: {token}\n\n"
        yield "event: end\ndata:\n\n"
    except TimeoutError:
        yield "event: stopped\ndata:\n\n"
    finally:
        del answers[name]
        ended.set()


async def read(client: httpx.AsyncClient, name: str, stop_after: int) -> list[str]:
    """The lines of an answer, which is stopped after so many tokens."""
    lines = []
    question = {"question": "What is a loop?"}
    async with client.stream("GET", f"/answers/{name}", params=question) as response:
        async for line in response.aiter_lines():
            lines.append(line)
            if lines.count("") == stop_after and line == "":
                (await client.delete(f"/answers/{name}")).raise_for_status()
    return [line for line in lines if line]


async def ask_itself(address: str) -> None:
    async with httpx.AsyncClient(base_url=address) as client:
        whole = await read(client, "first", stop_after=0)
        print(f"1. {len(whole) - 2} tokens, then {whole[-2]}")
        stopped = await read(client, "second", stop_after=5)
        print(f"2. Stop after 5 tokens: {stopped[-2]}")
        ended.clear()
        async with client.stream("GET", "/answers/third", params={"question": "?"}) as response:
            await anext(response.aiter_lines())
        # The connection is closed; the server notices it in one of its next turns.
        await ended.wait()
        print("3. A reader went away in the middle of its answer")
        print(f"4. {client_error(await client.delete('/answers/third'))}")
    at_work, finished, cancelled = token_stream.counts()
    print(f"5. The model: {at_work} at work, {finished} finished, {cancelled} stopped")


def client_error(response: httpx.Response) -> str:
    return f"{response.status_code}: {response.json()['detail']}"


async def main(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    server = Server(app)
    await server.start([listener])
    host, bound = listener.getsockname()
    if port:
        print(f"listening on http://{host}:{bound}", flush=True)
        await asyncio.Event().wait()
    await ask_itself(f"http://{host}:{bound}")
    await server.close()
    listener.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
