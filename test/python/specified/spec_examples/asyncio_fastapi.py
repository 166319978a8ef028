from fastapi import FastAPI
import erlang_asyncio

app = FastAPI()

@app.get("/delay")
async def delay_endpoint(ms: int = 100):
    # Uses Erlang timer instead of asyncio event loop
    await erlang_asyncio.sleep(ms / 1000.0)
    return {"slept_ms": ms}
