#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Keys of a bucket are renewed while it is read, whatever gives them, and nobody sees them: keys_of_a_bucket.py BUILD

For each source of keys: a mount, whose keys expire when half of its files are read. The rest is read with the next
ones. Then the secrets are looked for in the command lines, the log and stat, and the secret keys in all memory that a
core file would have.
"""

import contextlib
import datetime
import json
import os
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from script_test import run  # noqa: E402, before the modules of bench, which it makes known
from harness import Bench, Mount, process_tree  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from fault_store import FaultStore  # noqa: E402

OBJECTS = 60
ROLE = "arn:aws:iam::1:role/reader"


class Giver:
    """A source of keys: variables that name it, and a way to have it give other keys."""

    renews = True

    def __init__(self, store, folder):
        self.store, self.folder = store, folder
        self.folder.mkdir()
        self.secrets = []
        self.signing = []  # what requests are signed with, and what is shown to be given keys

    def variables(self):
        return {}

    def keys(self, name):
        keys = {"id": "AKID" + name.upper(), "secret": f"hush-{name}-" + os.urandom(12).hex(),
                "token": f"token-{name}-" + os.urandom(12).hex()}
        self.secrets.append(keys["token"])
        self.signing.append(keys["secret"])
        return keys

    def issue(self, name, refused=()):
        """The store takes these from now on, and refuses those of before as expired."""
        keys = self.keys(name)
        self.give(keys)
        self.store.set(keys={keys["id"]: {"secret": keys["secret"], "token": keys["token"]}, **self.base_keys()},
                       expired=list(refused))
        return keys["id"]

    def base_keys(self):
        return {}

    def give(self, keys):
        raise NotImplementedError

    def as_answer(self, keys, **more):
        expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        return {"AccessKeyId": keys["id"], "SecretAccessKey": keys["secret"],
                "Expiration": f"{expires:%Y-%m-%dT%H:%M:%SZ}", **more}


class Environment(Giver):
    renews = False  # nobody changes the environment of a process

    def give(self, keys):
        self.given = {"AWS_ACCESS_KEY_ID": keys["id"], "AWS_SECRET_ACCESS_KEY": keys["secret"],
                      "AWS_SESSION_TOKEN": keys["token"]}

    def variables(self):
        return self.given


class Profile(Giver):
    def give(self, keys):
        (self.folder / "credentials").write_text(
            f"[default]\naws_access_key_id = {keys['id']}\naws_secret_access_key = {keys['secret']}\n"
            f"aws_session_token = {keys['token']}\n")

    def variables(self):
        return {"AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "credentials")}


class Program(Giver):
    def give(self, keys):
        (self.folder / "answer").write_text(json.dumps(self.as_answer(keys, Version=1, SessionToken=keys["token"])))
        (self.folder / "config").write_text(f"[default]\ncredential_process = cat {self.folder}/answer\n")

    def variables(self):
        return {"AWS_CONFIG_FILE": str(self.folder / "config")}


class Service(Giver):
    def give(self, keys):
        self.store.set(service_keys=self.as_answer(keys, Token=keys["token"]))


class Role(Service):
    """Of a profile, by the keys of another one."""

    def base_keys(self):
        if not (self.folder / "config").exists():
            base = self.keys("base")
            self.base = {base["id"]: {"secret": base["secret"], "token": ""}}
            (self.folder / "config").write_text(
                f"[profile base]\naws_access_key_id = {base['id']}\naws_secret_access_key = {base['secret']}\n"
                f"[default]\nrole_arn = {ROLE}\nsource_profile = base\n")
        return self.base

    def variables(self):
        return {"AWS_CONFIG_FILE": str(self.folder / "config"), "AWS_ENDPOINT_URL_STS": self.store.url + "/sts"}


class WebIdentity(Service):
    def variables(self):
        self.signing.append("web-identity-token-" + os.urandom(12).hex())
        (self.folder / "token").write_text(self.signing[-1])
        return {"AWS_WEB_IDENTITY_TOKEN_FILE": str(self.folder / "token"), "AWS_ROLE_ARN": ROLE,
                "AWS_ENDPOINT_URL_STS": self.store.url + "/sts"}


class Container(Service):
    def variables(self):
        self.signing.append("container-token")  # that the server asks for
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.store.url + "/container",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN": self.signing[-1]}


class Machine(Service):
    def variables(self):
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.store.url, "AWS_EC2_METADATA_DISABLED": "false"}


GIVERS = {"environment": Environment, "profile default": Profile, "program": Program, "role": Role,
          "web identity": WebIdentity, "container": Container, "machine role reader": Machine}


@contextlib.contextmanager
def variables(values):
    """Nothing of whoever runs the test."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith("AWS_"):
            del os.environ[name]
    os.environ.update({"AWS_REGION": "us-east-1", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
                       "AWS_CONFIG_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true", **values})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def dumped_memory(pid):
    """What a core file would have of a process: memory of its own that is not left out (MADV_DONTDUMP). What was never
    touched is passed over: it may be as large as the machine's."""
    regions = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) ", line):
            region, resident = (int(head[1], 16), int(head[2], 16), head[3]), 0
        elif line.startswith("Rss:"):
            resident = int(line.split()[1])
        elif line.startswith("VmFlags:") and " dd" not in line and region[2].startswith("rw") and resident > 0:
            regions.append(region)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for first, end, _ in regions:
            with contextlib.suppress(OSError):  # of a device
                memory.seek(first)
                yield memory.read(end - first)


def check_that_nobody_sees(bench, mount, giver):
    """Session tokens travel with each request, so that memory for requests has them. They are of use to nobody who
    lacks the secret key."""
    shown = {"stat": json.dumps(mount.stat()), "log": (bench.work / "mount.log").read_text(errors="replace")}
    for pid in process_tree(mount.pid):
        for name in ("cmdline", "environ"):
            shown[f"{name} of {pid}"] = Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    for where, text in shown.items():
        for secret in giver.secrets + giver.signing:
            assert secret not in text, f"{where} has {secret}"
    for pid in process_tree(mount.pid):
        for memory in dumped_memory(pid):
            for secret in giver.signing:
                place = memory.find(secret.encode())
                assert place < 0, f"memory of {pid} has {memory[max(0, place - 60):place + len(secret) + 20]}"


def reads_on(bench, store, name, giver):
    first = giver.issue("first")
    mounted = Mount(bench, "s3://bucket/train/", "--endpoint", store.url, "--ram", "0")
    with variables(giver.variables()), mounted as mount:
        bucket = mount.stat()["store"]["bucket"]
        assert name in bucket["credentials"] or bucket["credentials"] == "profile default", bucket["credentials"]
        for number, (key, data) in enumerate(store.objects.items()):
            if number == OBJECTS // 2 and giver.renews:
                giver.issue("second", refused=[first])
            assert (mount.path / key).read_bytes() == data, key
        bucket = mount.stat()["store"]["bucket"]
        assert bucket["errors"] == 0, bucket
        check_that_nobody_sees(bench, mount, giver)


def check(build, work):
    bench = Bench(work, build)
    with FaultStore() as store:
        for number in range(OBJECTS):
            store.put(f"class{number % 3}/{number}.jpg", os.urandom(1000 + 997 * number))
        for name, kind in GIVERS.items():
            print(f"keys from: {name}", flush=True)
            reads_on(bench, store, name, kind(store, Path(work) / f"keys-{name.replace(' ', '-')}"))


if __name__ == "__main__":
    sys.exit(run(check))
