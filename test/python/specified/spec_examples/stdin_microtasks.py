import sys
from erlang_loop.callbacks import EventLoop

loop = EventLoop()

def js_execute(code):
    print(f"[JS] {code}")

def on_stdin(stdin):
    data = stdin.readline().strip()
    if data:
        # Simulate I/O callback scheduling
        loop.call_soon(poll_callback, f"console.log({data!r})")
    else:
        loop.remove_fd(stdin)
        loop.stop()

def poll_callback(code):
    js_execute(code)
    # Simulate Promise resolution
    loop.queue_microtask(js_execute, "Promise.then()")

loop.add_reader(sys.stdin, on_stdin)
loop.run_forever()
