"""Parses and writes a document of small objects."""

import json
import time

document = json.dumps([{"name": f"row {i}", "value": i / 7, "tags": ["a", "b"]} for i in range(2000)])
begun = time.monotonic()
total = sum(len(json.dumps(json.loads(document))) for _ in range(120))
print("seconds", time.monotonic() - begun, total)
