#!/usr/bin/env python3
"""serve.py: a file server that lets the live page share memory between threads.

    python3 examples/web/serve.py build/web 8000

It is python3 -m http.server with the two headers that browsers ask for."""
import functools
import http.server
import sys


class Isolated(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


folder = sys.argv[1] if len(sys.argv) > 1 else "build/web"
port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
handler = functools.partial(Isolated, directory=folder)
print(f"http://localhost:{port}")
http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()
