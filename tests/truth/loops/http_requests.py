"""Serves a document over HTTP from a thread, and asks for it from the main thread."""

import http.client
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

document = json.dumps([{"row": number, "text": f"text {number * 7919 % 9973}"} for number in range(150_000)]).encode()
rows = json.loads(document)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def do_GET(self):
        first = int(self.path.rpartition("/")[2])
        answer = json.dumps(rows[first : first + 200]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
connection = http.client.HTTPConnection(*server.server_address)
total, begun = 0, time.monotonic()
for number in range(1500):
    connection.request("GET", f"/rows/{number * 37 % 149_000}")
    total += len(connection.getresponse().read())
print("seconds", time.monotonic() - begun, total)
server.shutdown()
