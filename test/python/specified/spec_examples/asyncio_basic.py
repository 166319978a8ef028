import erlang_asyncio

async def my_handler():
    # Sleep using Erlang's timer system
    await erlang_asyncio.sleep(0.1)  # 100ms
    return "done"

# Run a coroutine
result = erlang_asyncio.run(my_handler())
