# SPDX-License-Identifier: Apache-2.0
"""tests/cache/object/object_server.py as a child: it compares signatures, counts, and misbehaves as it is told.

    with FaultStore() as store:
        store.put("a.jpg", b"...")           # the object train/a.jpg of the bucket "bucket"
        store.set(busy=0.01)
"""

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

SERVER = Path(__file__).resolve().parents[1] / "cache" / "object" / "object_server.py"
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
# Nothing of whoever runs the test.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
               "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_CONFIG_FILE": "/nonexistent",
               "AWS_EC2_METADATA_DISABLED": "true"}
PATIENCE_SECONDS = 60  # machines are shared


class FaultStore:
    def __init__(self):
        self.objects = {}
        self.start(0)

    def start(self, port):
        self.process = subprocess.Popen([sys.executable, SERVER, "--port", str(port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE_SECONDS)
        self.process.stdout.close()

    def restart(self):
        """After its process was killed: at the same place, with the same objects."""
        self.__exit__()
        self.start(self.port)
        for name, data in self.objects.items():
            self.put(name, data)

    def _post(self, path, body=b""):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=body, method="POST")) as answer:
            return answer.read()

    def put(self, name, data):
        self._post("/_put?key=" + urllib.parse.quote("train/" + name), data)
        self.objects[name] = data

    def fill(self, keys):
        """Many objects of the bucket at once, each with its own key for content."""
        self._post("/_fill", json.dumps(keys).encode())

    def put_huge(self, key, size):
        """An object that nobody has to hold: the bytes at 8 N are the number N, the lowest byte first."""
        self._post(f"/_huge?key={urllib.parse.quote(key)}&size={size}")

    def set(self, **faults):
        self._post("/_set", json.dumps(faults).encode())

    def counts(self):
        return json.loads(self._post("/_counts"))
