"""The actor of actor.escript: an account that is a process."""

from __future__ import annotations

import erlang


async def account(balance: int) -> None:
    async for message in erlang.mailbox():
        what, *rest = message
        if what == "deposit":
            balance += rest[0]
        elif what == "$gen_call":
            # gen_server:call(Account, balance)
            reply, request = rest
            await reply.async_call(balance if request == "balance" else "what?")
