# SPDX-License-Identifier: Apache-2.0
"""An epoch from a bucket, compared with a bare HTTP client and with other mounts of buckets.

nginx plays the store: it answers each GET after 20 ms, and a listing from files that were written before. It checks no
signature and knows no errors; for rows that are about these, the tests' own store is slow enough."""

import contextlib
import datetime
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from urllib.parse import quote
from xml.sax.saxutils import escape

from harness import REPOSITORY, Figures, Mount, Row
from sources import CannotRun, Failed, end_process, need_root, unmount, wait_until_mounted
from sweeper import holding

sys.path.append(str(REPOSITORY / "tests/support"))

from fault_store import ENVIRONMENT, FaultStore  # noqa: E402, which the line before makes known

BUCKET = "bench"
LATENCY_SECONDS = 0.02
CONNECTIONS = 256  # of the bare client; headrace finds its own number, up to 1 024
READERS = 2         # processes, as the workers of a loader
ORDER = "torch-distributed:seed=0"
PATIENCE_SECONDS = 20
ECHO_MODULE = "/usr/lib/nginx/modules/ngx_http_echo_module.so"

CONFIG = """
daemon off;
pid {work}/nginx.pid;
error_log {work}/error.log;
load_module {echo};
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  sendfile on;
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
  uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
  map $args $listing {{ default ""; "~(^|&)prefix=(?<folder>[^&/%]*)" "$folder"; }}
  server {{
    listen 127.0.0.1:{port}{tls};
    location = /{bucket} {{ rewrite ^ /listings/root$listing.xml last; }}
    location = /{bucket}/ {{ rewrite ^ /listings/root$listing.xml last; }}
    location /listings/ {{ internal; root {work}; default_type application/xml; types {{}} }}
    location /{bucket}/ {{ echo_sleep {latency}; echo_exec @object; }}
    location @object {{ root {work}; if (-d $request_filename) {{ return 404; }} }}
  }}
}}
"""


class Store:
    """nginx over a folder of objects."""

    def __init__(self, bench, source, tls=False):
        self.bench, self.source, self.tls = bench, source, tls
        self.work = bench.work / f"store-{'tls-' if tls else ''}{os.getpid()}"
        self.certificate = self.work / "store.pem"
        self.errors = self.work / "errors"
        self.process = None

    def __enter__(self):
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "listings").mkdir(parents=True)
        (self.work / BUCKET).symlink_to(self.source)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.write_listings()
        listen = " backlog=4096"
        if self.tls:
            self.make_certificate()
            listen += f" ssl; ssl_certificate {self.certificate}; ssl_certificate_key {self.work}/store.key"
        config = self.work / "nginx.conf"
        config.write_text(CONFIG.format(work=self.work, echo=ECHO_MODULE, port=self.port, bucket=BUCKET,
                                        tls=listen, latency=LATENCY_SECONDS))
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(["/usr/sbin/nginx", "-p", self.work, "-c", config], stderr=errors)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    why = self.errors.read_text()[-300:]
                    self.__exit__()
                    raise Failed(f"nginx did not start: {why}") from None
                time.sleep(0.02)

    def __exit__(self, *_):
        end_process(self.process)
        shutil.rmtree(self.work, ignore_errors=True)

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def make_certificate(self):
        self.bench.execute(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", 2, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out",
                            self.certificate, "-keyout", self.work / "store.key"])

    def write_listings(self):
        """A folder per class; one answer each, which 1 000 keys are the most of."""
        folders = sorted(path.name for path in self.source.iterdir() if path.is_dir())
        entries = "".join(f"<CommonPrefixes><Prefix>{escape(name)}/</Prefix></CommonPrefixes>" for name in folders)
        self.write_listing("", entries)
        for name in folders:
            files = sorted((self.source / name).iterdir())
            self.write_listing(f"{name}/", "".join(self.entry(f"{name}/{path.name}", path) for path in files))

    def write_listing(self, prefix, entries):
        text = ('<?xml version="1.0" encoding="UTF-8"?>'
                '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>1000</MaxKeys>"
                f"<IsTruncated>false</IsTruncated>{entries}</ListBucketResult>")
        (self.work / "listings" / f"root{prefix.rstrip('/')}.xml").write_text(text)

    @staticmethod
    def entry(key, path):
        """With the ETag that nginx gives a file: its time and size."""
        about = path.stat()
        changed = datetime.datetime.fromtimestamp(int(about.st_mtime), datetime.timezone.utc)
        return (f"<Contents><Key>{escape(key)}</Key><LastModified>{changed:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
                f"<ETag>&quot;{int(about.st_mtime):x}-{about.st_size:x}&quot;</ETag><Size>{about.st_size}</Size>"
                "<StorageClass>STANDARD</StorageClass></Contents>")


class ObjectRow(Row):
    programs = ()

    def prepare(self):
        need_root("drop the page cache")
        for program in ("/usr/sbin/nginx", *self.programs):
            if shutil.which(program) is None:
                raise CannotRun(f"{program} is missing")
        if not os.path.exists(ECHO_MODULE):
            raise CannotRun("the package libnginx-mod-http-echo is missing")
        # 2.6 GB. A shorter epoch is over before it is known how many requests at once bring most.
        self.source = self.bench.data_set(self.bench.count(24_000, 200))
        self.samples = self.bench.file_list(self.source)
        self.checksum = self.bench.sum_of(self.source, self.samples)
        self.store = self.stack.enter_context(Store(self.bench, self.source))
        self.order = self.bench.work / f"order-{os.getpid()}"
        self.stack.callback(lambda: self.order.unlink(missing_ok=True))
        headrace = self.bench.program("headrace")
        self.order.write_text(self.bench.execute([headrace, "order", self.source, "--order", ORDER]))

    def headrace(self):
        self.bench.warm(self.source, self.samples)  # what the store reads is no part of this
        with Mount(self.bench, f"s3://{BUCKET}/", "--endpoint", self.store.endpoint, "--no-sign-request", "--region",
                   "us-east-1", "--ram", "4G", "--order", ORDER) as mount:
            began = time.monotonic()  # it fetches already
            command = [self.bench.program("read_files"), mount.path, self.order, "--processes", READERS]
            figures = self.bench.measure(command, [mount.pid])
            figures.seconds = time.monotonic() - began
            figures.extra["bucket"] = mount.stat().get("bucket")
            figures.checksum = self.bench.sum_of(mount.path, self.samples)
        if figures.checksum != self.checksum:
            raise Failed("the bytes of the bucket are not those of its objects")
        return figures


class S3Epoch(ObjectRow):
    name = "s3-epoch"
    bar = 0.90
    rounds = 3
    other_is_bound = True
    programs = ("h2load",)
    headrace_side = f"a cold epoch of a bucket through the mount, 20 ms per request, order known, {READERS} readers"
    other_side = f"min({CONNECTIONS} connections / 20 ms, h2load's GETs of the same objects over as many)"

    def run(self, side, variant):
        return self.headrace() if side == "headrace" else self.bare_client()

    def bare_client(self):
        paths = self.order.read_text().splitlines()
        urls = self.bench.work / f"urls-{os.getpid()}"
        urls.write_text("".join(f"{self.store.endpoint}/{BUCKET}/{quote(path)}\n" for path in paths))
        self.bench.warm(self.source, self.samples)
        try:
            began = time.monotonic()
            text, usage = self.bench.run_program(["h2load", "--h1", "-t", 1, "-c", min(CONNECTIONS, len(paths)), "-n",
                                                  len(paths), "-i", urls])
            seconds = time.monotonic() - began
        finally:
            urls.unlink()
        if f"{len(paths)} succeeded" not in text:
            raise Failed("h2load: " + next((line for line in text.splitlines() if "requests:" in line), "no requests"))
        return Figures(samples=len(paths), seconds=max(seconds, len(paths) * LATENCY_SECONDS / CONNECTIONS),
                       cpu_seconds=usage.ru_utime + usage.ru_stime, checksum=self.checksum)


class S3Peers(ObjectRow):
    name = "s3-peers"
    bar = 15
    rounds = 3
    variants = ("rclone", "s3fs")
    programs = variants
    headrace_side = f"as s3-epoch, {READERS} readers"
    other_side = "another mount of the same bucket, the same readers; a tenth of the files"

    def run(self, side, variant):
        if side == "headrace":
            return self.headrace()
        mountpoint = self.bench.work / f"peer-{os.getpid()}"
        part = self.bench.work / f"part-{os.getpid()}"
        samples = self.order.read_text().splitlines(keepends=True)
        part.write_text("".join(samples[:max(1, len(samples) // 10)]))  # at a few dozen a second
        self.bench.warm(self.source, self.samples)
        try:
            with PeerMount(self.command_of(variant, mountpoint), mountpoint) as peer:
                command = [self.bench.program("read_files"), mountpoint, part, "--processes", READERS]
                figures = self.bench.measure(command, [peer.process.pid])
                same = self.bench.sum_of(mountpoint, part) == self.bench.sum_of(self.source, part)
        finally:
            part.unlink()
        if not same:
            raise Failed(f"{variant} shows other bytes than the objects have")
        figures.checksum = self.checksum  # of its part; the whole would take minutes
        return figures

    def command_of(self, variant, mountpoint):
        if variant == "rclone":
            return ["rclone", "mount", f":s3:{BUCKET}", mountpoint, "--read-only", "--s3-provider", "Other",
                    "--s3-endpoint", self.store.endpoint, "--s3-force-path-style", "--config", os.devnull]
        return ["s3fs", BUCKET, mountpoint, "-f", "-o", f"ro,url={self.store.endpoint}", "-o",
                "use_path_request_style,public_bucket=1"]


class S3Cpu(ObjectRow):
    name = "s3-cpu"
    bar = 1.0
    rounds = 3
    variants = ("http", "tls")
    other_is_bound = True
    programs = ("openssl",)
    headrace_side = "processor time for an object from a bucket up to memory, its request signed and its bytes hashed"
    other_side = "150 us by HTTP, 300 us by TLS"
    seconds_allowed = {"http": 150e-6, "tls": 300e-6}

    def prepare(self):
        super().prepare()
        os.environ.update(ENVIRONMENT)
        self.stack.callback(os.environ.pop, "AWS_CA_BUNDLE", None)
        self.stores = {"http": self.store, "tls": self.stack.enter_context(Store(self.bench, self.source, tls=True))}
        self.command = [self.bench.program("headrace"), "read", "--order", ORDER, "--json", "--checksum"]
        self.checksum = self.bench.execute_json([*self.command, self.source])["epochs"][0]["xxh3"]
        self.count = len(self.samples.read_text().splitlines())

    def run(self, side, variant):
        if side != "headrace":
            return Figures(samples=self.count, seconds=self.count * self.seconds_allowed[variant],
                           checksum=self.checksum)
        store = self.stores[variant]
        os.environ["AWS_CA_BUNDLE"] = str(store.certificate if store.tls else "")
        text, _ = self.bench.run_program([*self.command, f"s3://{BUCKET}/", "--endpoint", store.endpoint, "--ram",
                                          "4G"])
        epoch = json.loads(text)["epochs"][0]
        if epoch["xxh3"] != self.checksum:
            raise Failed("the bytes of the bucket are not those of its objects")
        # Of the epoch alone: the program's start and the listing of the bucket are no part of an object's way.
        return Figures(samples=self.count, seconds=epoch["cpu_seconds"], cpu_seconds=epoch["cpu_seconds"],
                       checksum=self.checksum)


class S3Faults(Row):
    name = "s3-faults"
    bar = 0.87  # 1 / 1.15
    other_is_bound = True
    rounds = 3
    headrace_side = ("an epoch of a bucket where 1 % of GETs end with 503, 1 % stall for 10 s, 0.5 % are reset and "
                     "0.5 % short")
    other_side = "the same epoch, and nothing goes wrong"

    def prepare(self):
        os.environ.update(ENVIRONMENT)
        # An epoch of 4 000 takes half a second here, and the last one that stalls a fifth of that.
        folder = self.bench.data_set(self.bench.count(12_000, 200))
        self.count = sum(1 for _ in folder.rglob("*.jpg"))
        self.store = self.stack.enter_context(FaultStore())
        for file in folder.rglob("*.jpg"):
            self.store.put(str(file.relative_to(folder)), file.read_bytes())
        self.command = [self.bench.program("headrace"), "read", "--order", ORDER, "--json", "--checksum"]
        self.checksum = self.bench.execute_json([*self.command, folder])["epochs"][0]["xxh3"]

    def run(self, side, variant):
        share = 0.01 if side == "headrace" else 0.0
        # Of less memory what is read ahead lasts for 80 ms, and whoever reads in order waits for each that stalls.
        self.store.set(delay=LATENCY_SECONDS, busy=share, stall=share, reset=share / 2, short=share / 2)
        text, usage = self.bench.run_program([*self.command, "s3://bucket/train", "--endpoint", self.store.url, "--ram",
                                              "1G"])
        epoch = json.loads(text)["epochs"][0]
        if epoch["xxh3"] != self.checksum:
            raise Failed("the bytes of the bucket are not those of its objects")
        return Figures(samples=self.count, seconds=epoch["seconds"], cpu_seconds=usage.ru_utime + usage.ru_stime,
                       checksum=self.checksum)


class S3List(Row):
    name = "s3-list"
    bar = 1.0
    rounds = 3
    variants = ("folders", "flat", "again")
    other_is_bound = True
    headrace_side = "until a mount shows 100 000 keys in 1 000 folders or in one, LIST after 75 ms; and mounted again"
    other_side = "6 s, 3 s, 1 s"
    seconds_allowed = {"folders": 6, "flat": 3, "again": 1}

    def prepare(self):
        os.environ.update(ENVIRONMENT)
        self.count = self.bench.count(100_000, 10_000)
        self.store = self.stack.enter_context(FaultStore())
        for name, folders in (("folders", 1000), ("flat", 1)):
            self.store.fill([f"{name}/{key % folders:03}/{key:06}.jpg" for key in range(self.count)])
        self.store.set(list_delay=0.075)

    def run(self, side, variant):
        if side != "headrace":
            return Figures(samples=self.count, seconds=self.seconds_allowed[variant], checksum="names")
        shutil.rmtree(os.environ["HEADRACE_CACHE_DIR"], ignore_errors=True)
        if variant == "again":
            self.seconds_until_shown("folders")
        seconds = self.seconds_until_shown("flat" if variant == "flat" else "folders")
        return Figures(samples=self.count, seconds=seconds, checksum="names")  # which are counted there

    def seconds_until_shown(self, prefix):
        began = time.monotonic()
        with Mount(self.bench, f"s3://bucket/{prefix}", "--endpoint", self.store.url, "--ram", "32M") as mount:
            shown = len(os.listdir(mount.path / "000"))
            seconds = time.monotonic() - began
        if shown != (self.count if prefix == "flat" else self.count // 1000):
            raise Failed(f"{shown} names are shown")
        return seconds


class PeerMount:
    """A mount that another program makes in the foreground."""

    def __init__(self, command, mountpoint):
        self.command, self.mountpoint = command, mountpoint
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        with contextlib.ExitStack() as stack:
            self.mountpoint.mkdir(exist_ok=True)
            stack.callback(self.mountpoint.rmdir)
            stack.enter_context(holding("mount", self.mountpoint))
            stack.callback(unmount, self.mountpoint)
            self.process = subprocess.Popen([str(word) for word in self.command], env=environment,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.enter_context(holding("process", self.process.pid))
            stack.callback(end_process, self.process)
            wait_until_mounted(self.mountpoint, self.process)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()


ROWS = (S3Epoch, S3Peers, S3Cpu, S3Faults, S3List)
