# SPDX-License-Identifier: Apache-2.0
"""Object stores that others wrote, each started for a test and ended with it.

    with SwiftStore(work) as store:         # CannotRun, naming what is missing
        store.put("train/a b.jpg", b"...")
        mount("s3://bucket/train", "--endpoint", store.url)   # with store.environment()

Objects are put by botocore, which headrace shares nothing with. None of the packages is needed for anything else, so
that no list of packages has them: python3-botocore and swift-proxy swift-account swift-container swift-object, or
ceph-mon ceph-osd radosgw, or s3rver from npm.
"""

import os
import shutil
import socket
import subprocess
import time
import uuid
import warnings
from pathlib import Path

from sources import CannotRun, Failed, end_process

BUCKET = "bucket"
KEY, SECRET = "test:tester", "testing"
PATIENCE_SECONDS = 120  # machines are shared, and a daemon in Python takes seconds to begin


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is missing")
    try:
        import botocore.session  # noqa: F401
    except ImportError:
        raise CannotRun("python3-botocore is missing") from None


class RealStore:
    """What all have in common: a folder, processes, and a client."""

    name = ""
    key, secret, region = KEY, SECRET, "us-east-1"
    is_complete = True  # else wrong keys and doctor are left out

    def __init__(self, work):
        self.work = Path(work) / self.name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.ports = [self.port]  # where somebody has to listen before the first request
        self.processes = []
        self.objects = {}

    def __enter__(self):
        self.work.mkdir()
        try:
            self.start()
            self.client = self.make_client()
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            end_process(process)
        shutil.rmtree(self.work, ignore_errors=True)

    def run(self, *words):
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{words[0]} ended with {done.returncode}: {done.stdout[-500:]}")
        return done.stdout

    def daemon(self, *words, **environment):
        with (self.work / "log").open("ab") as log:
            self.processes.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log,
                                                   stdin=subprocess.DEVNULL, env={**os.environ, **environment}))

    def make_client(self):
        import botocore.config
        import botocore.session
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        return botocore.session.get_session().create_client(
            "s3", endpoint_url=self.url, region_name=self.region, aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 5}))

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        for port in self.ports:  # or botocore waits for longer and longer, and Swift's proxy for a minute
            while not listens(port):
                self.check(deadline, f"nobody listens at {port}")
                time.sleep(0.2)
        while True:
            try:
                self.client.create_bucket(Bucket=BUCKET)
                return
            except Exception as problem:  # botocore makes a class for each kind of answer
                self.check(deadline, problem)
                time.sleep(0.5)

    def check(self, deadline, problem):
        if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
            raise Failed(f"{self.name} does not answer: {problem}\n{(self.work / 'log').read_text()[-800:]}")

    def put(self, name, data):
        self.client.put_object(Bucket=BUCKET, Key="train/" + name, Body=data)
        self.objects[name] = data

    def delete(self, name):
        self.client.delete_object(Bucket=BUCKET, Key="train/" + name)
        del self.objects[name]

    def environment(self):
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_REGION": self.region}


class SwiftStore(RealStore):
    """OpenStack Swift with its s3api: four daemons over a folder whose file system keeps attributes."""

    name = "swift"

    def start(self):
        need("swift-proxy-server", "swift-account-server", "swift-container-server", "swift-object-server", "memcached")
        from swift.common.ring import RingBuilder
        if not os.access("/etc/swift/swift.conf", os.R_OK):
            raise CannotRun("/etc/swift/swift.conf is missing, or is not for this user")
        user = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        common = f"bind_ip = 127.0.0.1\nworkers = 0\nuser = {user}\nswift_dir = {self.work}\nlog_level = ERROR\n"
        (self.work / "srv/d1").mkdir(parents=True)
        for kind in ("account", "container", "object"):
            port = free_port()
            self.ports.append(port)
            ring = RingBuilder(2, 1, 0)
            ring.add_dev({"region": 1, "zone": 1, "ip": "127.0.0.1", "port": port, "device": "d1", "weight": 1})
            ring.rebalance()
            ring.get_ring().save(str(self.work / f"{kind}.ring.gz"))
            config = self.work / f"{kind}.conf"
            config.write_text(f"[DEFAULT]\n{common}bind_port = {port}\ndevices = {self.work}/srv\nmount_check = false\n"
                              f"[pipeline:main]\npipeline = {kind}-server\n"
                              f"[app:{kind}-server]\nuse = egg:swift#{kind}\n")
            self.daemon(f"swift-{kind}-server", config, "-v")
        cache = free_port()  # tempauth does nothing without one
        self.daemon("memcached", "-l", "127.0.0.1", "-p", cache, "-U", 0, "-u", user)
        config = self.work / "proxy.conf"
        config.write_text(f"[DEFAULT]\n{common}bind_port = {self.port}\n"
                          "[pipeline:main]\npipeline = catch_errors gatekeeper cache s3api tempauth slo proxy-server\n"
                          "[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"
                          "[filter:catch_errors]\nuse = egg:swift#catch_errors\n"
                          "[filter:gatekeeper]\nuse = egg:swift#gatekeeper\n"
                          f"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{cache}\n"
                          f"[filter:s3api]\nuse = egg:swift#s3api\nlocation = {self.region}\n"
                          "[filter:slo]\nuse = egg:swift#slo\n"
                          "[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = testing .admin\n")
        self.daemon("swift-proxy-server", config, "-v")


class RgwStore(RealStore):
    """Ceph's gateway: a monitor and an OSD that keeps all in memory."""

    name = "rgw"
    key = "test"

    def start(self):
        need("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
        fsid, osd, monitor = str(uuid.uuid4()), str(uuid.uuid4()), f"[v2:127.0.0.1:{free_port()}]"
        for folder in ("mon", "osd", "rgw"):
            (self.work / folder).mkdir()
        self.config = self.work / "ceph.conf"
        self.config.write_text(
            f"[global]\nfsid = {fsid}\nmon host = {monitor}\nmon initial members = a\n"
            "osd pool default size = 1\nosd pool default min size = 1\nmon allow pool size one = true\n"
            "osd pool default pg num = 4\nosd crush chooseleaf type = 0\nosd objectstore = memstore\n"
            "memstore device bytes = 2147483648\npublic addr = 127.0.0.1\ncluster addr = 127.0.0.1\n"
            f"mon data = {self.work}/mon\nosd data = {self.work}/osd\nrgw data = {self.work}/rgw\n"
            f"run dir = {self.work}\nadmin socket = {self.work}/$name.asok\nlog file = {self.work}/$name.log\n"
            f"crash dir = {self.work}\nkeyring = {self.work}/keyring\n"
            f"[osd]\nkeyring = {self.work}/osd/keyring\n")
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, self.work / "monmap")
        keys, all_caps = self.work / "keyring", ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
        self.run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", *all_caps[:3])
        self.run("ceph-authtool", keys, "--gen-key", "-n", "client.admin", *all_caps)
        self.ceph("ceph-mon", "--mkfs", "-i", "a", "--monmap", self.work / "monmap", "--keyring", keys)
        self.daemon("ceph-mon", "-c", self.config, "-f", "-i", "a")
        self.ceph("ceph", "osd", "new", osd)
        self.ceph("ceph", "auth", "get-or-create", "osd.0", "mon", "allow profile osd", "osd", "allow *", "-o",
                  self.work / "osd/keyring")
        self.ceph("ceph-osd", "-i", 0, "--mkfs", "--osd-uuid", osd)
        self.daemon("ceph-osd", "-c", self.config, "-f", "-i", 0)
        self.ceph("radosgw-admin", "user", "create", "--uid", "test", "--display-name", "test", "--access-key",
                  self.key, "--secret-key", self.secret)
        self.daemon("radosgw", "-c", self.config, "-f", "-n", "client.admin", "--keyring", keys, "--rgw-frontends",
                    f"beast endpoint=127.0.0.1:{self.port}")

    def ceph(self, program, *words):
        return self.run("timeout", PATIENCE_SECONDS, program, "-c", self.config, *words)


class S3rverStore(RealStore):
    """s3rver of npm, in the folder that S3RVER_MODULES names: npm install s3rver there.

    Its listings leave out folders in which there are only folders (3.7.1), so that here are none.
    """

    name = "s3rver"
    key, secret = "S3RVER", "S3RVER"
    is_complete = False  # 3.7.1 compares no signatures of version 4, and answers a listing of one key with 500

    def start(self):
        need("node")
        program = Path(os.environ.get("S3RVER_MODULES", "/nonexistent")) / "node_modules/s3rver/bin/s3rver.js"
        if not program.exists():
            raise CannotRun("s3rver is missing: npm install s3rver in a folder, and name that in S3RVER_MODULES")
        self.daemon("node", program, "--directory", self.work / "data", "--address", "127.0.0.1", "--port", self.port,
                    "--silent")

    def put(self, name, data):
        super().put(name.replace("/", "-", max(0, name.count("/") - 1)), data)


STORES = {store.name: store for store in (SwiftStore, RgwStore, S3rverStore)}
