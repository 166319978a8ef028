import erlang_asyncio

async def main():
    async with erlang_asyncio.timeout(1.0):
        await slow_operation()  # Raises TimeoutError if > 1s
