import erlang_asyncio

async def example():
    # Simple sleep
    await erlang_asyncio.sleep(0.05)  # 50ms

    # Sleep and return a value
    value = await erlang_asyncio.sleep(0.01, result='ready')
    assert value == 'ready'
