import erlang_asyncio

async def main():
    await erlang_asyncio.sleep(0.01)
    return 42

result = erlang_asyncio.run(main())
assert result == 42
