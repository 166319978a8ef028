import erlang_asyncio

async def background_work():
    await erlang_asyncio.sleep(0.1)
    return 'background_done'

async def main():
    task = erlang_asyncio.create_task(background_work())

    # Do other work while task runs
    await erlang_asyncio.sleep(0.05)

    # Wait for task to complete
    result = await task
    assert result == 'background_done'

erlang_asyncio.run(main())
