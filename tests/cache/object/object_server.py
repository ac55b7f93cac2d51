#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An object store for tests: a bucket in memory that speaks as much of S3 as headrace does, and misbehaves on demand.

    object_server.py [--port N]        prints "port N", and ends when its input does

Objects come from POST /_put?key=K (the body), faults from POST /_set with a JSON object (see Faults), counts from
GET /_counts. Signatures are computed here a second time, from the specification, and compared.
"""
import argparse
import array
import asyncio
import bisect
import datetime
import gzip
import hashlib
import hmac
import json
import random
import sys
import urllib.parse
from xml.sax.saxutils import escape

DATE = "Wed, 01 Jan 2025 00:00:00 GMT"


class Faults:
    """What goes wrong. Shares are of GETs of objects."""
    def __init__(self):
        self.busy = self.stall = self.reset = self.short = 0.0  # 503, no more bytes, connection lost, too few bytes
        self.stall_seconds = 10.0
        self.stalls = 0            # so many GETs stall
        self.all_busy = 0          # so many requests are answered with 503
        self.busy_status = 503     # or with this one, by a gateway
        self.retry_after = ""
        self.delay = 0.0           # before each answer
        self.list_delay = 0.0
        self.wrong_etag = False    # the answer names another one, and its bytes are of another version
        self.ignore_if_match = False
        self.unpacks = ""          # "told" or "silently": what is gzip is sent unpacked, unless that is taken
        self.shift_range = 0       # bytes by which an answer lies beside the range that was asked for
        self.ignore_range = False
        self.lost_in_headers = 0   # so many GETs: the connection is lost behind the line with the status
        self.last_modified = DATE
        self.no_length = False     # HEADs do not say how large the object is
        self.region = "us-east-1"  # the bucket's
        self.redirect = ""         # a place: GETs are sent there with 307
        self.redirects = 0         # how often; each counts down
        self.clock = 0             # seconds by which the store's clock is ahead
        self.deny = False
        self.deny_list = False
        self.requester_pays = False
        self.etags = "strong"      # or "weak", "none"
        self.keys = {"AKIDEXAMPLE": {"secret": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token": ""}}
        self.expired = []          # access keys that are refused as expired
        self.unsigned = False      # requests without a signature are good
        self.page = 1000
        self.service_keys = {}     # what the metadata, container and token services give out
        self.service_status = 200
        self.service_seconds = 0   # until they answer
        self.raw_list = ""         # the body of each listing
        self.endless = False       # each folder has a folder
        self.caseless = False      # keys are listed as a file system lists them that knows no case
        self.endless_keys = False  # each page has a key, and says that there are more
        self.wide = 0              # each folder has so many folders
        self.empty_pages = 0       # so many pages have no key, and are not the last ones


class Numbers:
    """The bytes of an object that is too large to be kept: each eight of them tell their place."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        first, end, _ = part.indices(self.size)
        words = array.array("Q", range(first // 8, (end + 7) // 8)).tobytes()
        return words[first % 8:first % 8 + end - first]


class Store:
    def __init__(self):
        self.bucket = "bucket"
        self.objects = {}          # key: (bytes, etag)
        self.sorted = None
        self.faults = Faults()
        self.counts = {}
        self.gets = {}
        self.random = random.Random(7)

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def put(self, key, data):
        self.objects[key] = (data, hashlib.md5(data).hexdigest())
        self.sorted = None

    def keys(self):
        if self.sorted is None:
            self.sorted = sorted(key.encode() for key in self.objects)
        return self.sorted


STORE = Store()
FAULTS_AT_FIRST = vars(Faults())


class Refused(Exception):
    def __init__(self, status, code="", message="", headers=None):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}

    def body(self):
        region = self.headers.get("x-amz-bucket-region", "")
        return (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{self.code}</Code><Message>{escape(self.message)}'
                f'</Message>{f"<Region>{region}</Region>" if region else ""}</Error>').encode()


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def check_signature(method, path, query, headers, body=b""):
    faults = STORE.faults
    authorization = headers.get("authorization", "")
    if not authorization:
        if faults.unsigned:
            return
        raise Refused(403, "AccessDenied", "Anonymous")
    fields = dict(part.strip().split("=", 1) for part in authorization.split(" ", 1)[1].split(","))
    key_id, day, region, service, _ = fields["Credential"].split("/")
    names = fields["SignedHeaders"]
    if "host" not in names.split(";"):
        raise Refused(403, "AccessDenied", "the host is not signed")
    if key_id in faults.expired:
        # What answers a HEAD says nothing but its status.
        region_of_bucket = {"x-amz-bucket-region": faults.region} if method != "HEAD" else {}
        raise Refused(400, "ExpiredToken", "The provided token has expired.", region_of_bucket)
    if key_id not in faults.keys:
        raise Refused(403, "InvalidAccessKeyId", "no such key")
    if faults.keys[key_id]["token"] != headers.get("x-amz-security-token", ""):
        raise Refused(403, "InvalidToken", "the token is wrong")
    for name in headers:
        if name.startswith("x-amz-") and name not in names.split(";"):
            raise Refused(403, "AccessDenied", f"{name} is not signed")
    date = headers["x-amz-date"]
    then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ")
    now = datetime.datetime.utcnow() + datetime.timedelta(seconds=faults.clock)
    if abs((now - then).total_seconds()) > 900:
        raise Refused(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is "
                      "too large.")
    if region != faults.region:
        raise Refused(400, "AuthorizationHeaderMalformed", f"the region '{region}' is wrong",
                      {"x-amz-bucket-region": faults.region})
    canonical_headers = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names.split(";"))
    canonical_query = "&".join(sorted(query.split("&"))) if query else ""
    canonical = "\n".join([method, path, canonical_query, canonical_headers, names,
                           headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest())])
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + faults.keys[key_id]["secret"]).encode()
    for part in (day, region, service, "aws4_request"):
        key = sign(key, part)
    if sign(key, text).hex() != fields["Signature"]:
        raise Refused(403, "SignatureDoesNotMatch", canonical)


def as_told(etag):
    return {"strong": f'"{etag}"', "weak": f'W/"{etag}"', "none": ""}[STORE.faults.etags]


def place_of(path, headers):
    """Bucket and key: the bucket is in the path, or in the name of the host before the server's own."""
    host = headers["host"].rpartition(":")[0]
    bucket, _, rest = host.partition(".")
    if rest == "localhost":
        STORE.count("virtual host")
        path = f"/{bucket}{path}"
    elif host not in ("127.0.0.1", "localhost"):
        raise Refused(400, "InvalidRequest", f"'{host}' is no host of this store")
    parts = path.split("/", 2)
    return urllib.parse.unquote(parts[1]), urllib.parse.unquote(parts[2]) if len(parts) > 2 else ""


def encode(name):
    return urllib.parse.quote_plus(name, safe="/-._~")


def list_page(query):
    faults = STORE.faults
    if faults.raw_list:
        return faults.raw_list.encode()
    parameters = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    prefix, delimiter = parameters.get("prefix", ""), parameters.get("delimiter", "")
    after = parameters.get("continuation-token") or parameters.get("start-after", "")
    if faults.endless:
        return (f"<ListBucketResult><CommonPrefixes><Prefix>{prefix}a/</Prefix></CommonPrefixes>"
                "</ListBucketResult>").encode()
    if faults.endless_keys:
        STORE.count("endless")
        key = f"{prefix}{STORE.counts['endless']:012}"
        return (f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{key}</NextContinuationToken>"
                f"<Contents><Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>").encode()
    if faults.wide:
        folders = (f"<CommonPrefixes><Prefix>{prefix}{n}/</Prefix></CommonPrefixes>" for n in range(faults.wide))
        return f"<ListBucketResult>{''.join(folders)}</ListBucketResult>".encode()
    if faults.empty_pages > 0:
        faults.empty_pages -= 1
        return (f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{after}!"
                "</NextContinuationToken></ListBucketResult>").encode()
    if faults.caseless:
        rank = lambda name: (name.lower(), name)  # noqa: E731
        names = sorted((key.decode() for key in STORE.keys()), key=rank)
        names = [name for name in names if name.startswith(prefix) and rank(name) > rank(after)]
        items = names[:faults.page]
        return list_answer(items, [], items[-1] if len(names) > len(items) else None)
    items, folders, last, truncated = [], [], "", False
    keys = STORE.keys()
    at = bisect.bisect_left(keys, max(prefix.encode(), after.encode()))
    while at < len(keys) and keys[at].startswith(prefix.encode()):
        name = keys[at].decode()
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        if cut >= 0:
            name = name[:cut + 1]
            at = bisect.bisect_left(keys, name[:-1].encode() + bytes([ord(delimiter) + 1]), at)
        else:
            at += 1
        if name.encode() <= after.encode():
            continue
        if len(items) + len(folders) == faults.page:
            truncated = True
            break
        last = name
        (folders if cut >= 0 else items).append(name)
    return list_answer(items, folders, last if truncated else None)


def list_answer(items, folders, token):
    """`token`: to go on with; None: there is no more."""
    out = ['<?xml version="1.0" encoding="UTF-8"?>'
           '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>']
    out.append(f"<IsTruncated>{'false' if token is None else 'true'}</IsTruncated>")
    if token is not None:
        out.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
    for key in items:
        data, etag = STORE.objects[key]
        out.append(f"<Contents><Key>{encode(key)}</Key><LastModified>2025-01-01T00:00:00.000Z</LastModified>"
                   f"<ETag>{escape(as_told(etag))}</ETag><Size>{len(data)}</Size></Contents>")
    for folder in folders:
        out.append(f"<CommonPrefixes><Prefix>{encode(folder)}</Prefix></CommonPrefixes>")
    out.append("</ListBucketResult>")
    return "".join(out).encode()


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def run(self):
        try:
            while await self.serve_one():
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writer.close()

    async def send(self, status, headers, body, *, head=False, cut=None, no_length=False):
        now = datetime.datetime.utcnow() + datetime.timedelta(seconds=STORE.faults.clock)
        lines = [f"HTTP/1.1 {status} X", "Date: " + now.strftime("%a, %d %b %Y %H:%M:%S GMT")]
        if not no_length:
            headers = {"Content-Length": str(len(body)), **headers}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        if not head:
            self.writer.write(body if cut is None else body[:cut])
        await self.writer.drain()

    async def serve_one(self):
        line = await self.reader.readline()
        if not line:
            return False
        method, target, _ = line.decode("latin-1").split(" ")
        headers = {}
        while True:
            line = (await self.reader.readline()).decode("latin-1").strip()
            if not line:
                break
            name, value = line.split(":", 1)
            headers[name.lower()] = value.strip()
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        path, _, query = target.partition("?")
        if path.startswith("/_"):
            return await self.control(path, query, body)
        if path.startswith("/latest/") or path in ("/container", "/sts/"):
            return await self.give_keys(method, path, query, headers, body)
        STORE.count(method)
        try:
            return await self.serve_store(method, path, query, headers)
        except Refused as refused:
            STORE.count(f"status {refused.status}")
            text = b"" if method == "HEAD" else refused.body()
            await self.send(refused.status, refused.headers, text)
            return True

    async def control(self, path, query, body):
        parameters = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        answer = b""
        if path == "/_put":
            STORE.put(parameters["key"], body)
        elif path == "/_set":
            for name, value in json.loads(body).items():
                if name not in FAULTS_AT_FIRST:
                    raise KeyError(name)
                setattr(STORE.faults, name, value)
        elif path == "/_delete":
            del STORE.objects[parameters["key"]]
            STORE.sorted = None
        elif path == "/_fill":  # many small objects at once: a JSON list of keys
            for key in json.loads(body):
                STORE.put(key, key.encode())
        elif path == "/_huge":
            STORE.objects[parameters["key"]] = (Numbers(int(parameters["size"])), hashlib.md5(b"huge").hexdigest())
            STORE.sorted = None
        elif path == "/_counts":
            answer = json.dumps({**STORE.counts, **{f"key {key}": n for key, n in STORE.gets.items()}}).encode()
        await self.send(200, {}, answer)
        return True

    async def give_keys(self, method, path, query, headers, body):
        """The services of machines, containers and roles."""
        faults = STORE.faults
        STORE.count(path if path != "/sts/" else "sts " + dict(urllib.parse.parse_qsl(body.decode()))["Action"])
        if faults.service_seconds:
            await asyncio.sleep(faults.service_seconds)
            STORE.count("late keys")
        keys = faults.service_keys
        if path == "/latest/api/token":
            good = method == "PUT" and "x-aws-ec2-metadata-token-ttl-seconds" in headers
            await self.send(200 if good else 400, {}, b"SESSION" if good else b"")
        elif path.startswith("/latest/") and headers.get("x-aws-ec2-metadata-token") != "SESSION":
            await self.send(401, {}, b"")
        elif path == "/latest/meta-data/iam/security-credentials/":
            await self.send(200, {}, b"reader")
        elif path == "/container" and headers.get("authorization") != "container-token":
            await self.send(403, {}, b"")
        elif path == "/sts/":
            if b"Action=AssumeRole&" in body:
                try:
                    check_signature(method, path, query, headers, body)
                except Refused as refused:
                    await self.send(refused.status, {}, refused.body())
                    return True
            names = {"AccessKeyId": "AccessKeyId", "SecretAccessKey": "SecretAccessKey", "Token": "SessionToken",
                     "Expiration": "Expiration"}
            inside = "".join(f"<{names[name]}>{escape(keys[name])}</{names[name]}>" for name in names if name in keys)
            action = dict(urllib.parse.parse_qsl(body.decode()))["Action"]
            text = f"<R><{action}Result><Credentials>{inside}</Credentials></{action}Result></R>"
            await self.send(faults.service_status, {}, text.encode())
        else:
            await self.send(faults.service_status, {}, json.dumps({"Code": "Success", **keys}).encode())
        return True

    async def serve_store(self, method, path, query, headers):
        faults = STORE.faults
        if faults.all_busy > 0:
            faults.all_busy -= 1
            more = {"Retry-After": faults.retry_after} if faults.retry_after else {}
            code = "SlowDown" if faults.busy_status == 503 else ""
            raise Refused(faults.busy_status, code, "Please reduce your request rate.", more)
        if faults.delay:
            await asyncio.sleep(faults.delay)
        check_signature(method, path, query, headers)
        if faults.requester_pays and headers.get("x-amz-request-payer") != "requester":
            raise Refused(403, "AccessDenied", "Access Denied")
        bucket, key = place_of(path, headers)
        if bucket != STORE.bucket:
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        if not key and method == "GET":
            STORE.count("LIST")
            if faults.list_delay:
                await asyncio.sleep(faults.list_delay)
            if faults.deny_list:
                raise Refused(403, "AccessDenied", "not authorized to perform: s3:ListBucket")
            await self.send(200, {"Content-Type": "application/xml"}, list_page(query))
            return True
        return await self.serve_object(method, key, headers)

    async def serve_object(self, method, key, headers):
        faults = STORE.faults
        STORE.gets[key] = STORE.gets.get(key, 0) + 1
        if faults.redirects > 0:
            faults.redirects -= 1
            raise Refused(307, "TemporaryRedirect", "elsewhere", {"Location": faults.redirect + "/bucket/" + key})
        if faults.deny:
            raise Refused(403, "AccessDenied", "Access Denied")
        if key not in STORE.objects:
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        data, etag = STORE.objects[key]
        wanted = headers.get("if-match")
        if wanted not in (None, f'"{etag}"') and not faults.ignore_if_match:
            raise Refused(412, "PreconditionFailed", "At least one of the preconditions did not hold")
        if faults.wrong_etag:
            data, etag = bytes(len(data)), "0123"
        answer = {"ETag": as_told(etag), "Last-Modified": faults.last_modified}
        answer = {name: value for name, value in answer.items() if value}
        status, part = 200, data
        STORE.count("accepts " + headers.get("accept-encoding", "anything"))
        if faults.unpacks and data.startswith(b"\x1f\x8b") and "gzip" not in headers.get("accept-encoding", ""):
            if faults.unpacks == "told":
                answer["X-Goog-Stored-Content-Encoding"] = "gzip"
            await self.send(status, answer, gzip.decompress(data), head=method == "HEAD", no_length=True)
            return False
        if "range" in headers and not faults.ignore_range:
            first, last = (int(n) + faults.shift_range for n in headers["range"].removeprefix("bytes=").split("-"))
            if first >= len(data):
                raise Refused(416, "InvalidRange", "The requested range is not satisfiable")
            last = min(last, len(data) - 1)
            status, part = 206, data[first:last + 1]
            answer["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        if method == "HEAD":
            await self.send(status, answer, part, head=True, no_length=faults.no_length)
            return True
        if faults.lost_in_headers > 0:
            faults.lost_in_headers -= 1
            self.writer.write(f"HTTP/1.1 {status} X\r\n".encode())
            await self.writer.drain()
            return False
        if faults.stalls > 0:
            faults.stalls -= 1
            return await self.misbehave("stall", status, answer, part)
        luck = STORE.random.random()
        for fault in ("busy", "stall", "reset", "short"):
            share = getattr(faults, fault)
            if luck < share:
                return await self.misbehave(fault, status, answer, part)
            luck -= share
        await self.send(status, answer, part)
        return True

    async def misbehave(self, fault, status, answer, part):
        STORE.count(fault)
        if fault == "busy":
            raise Refused(503, "SlowDown", "Please reduce your request rate.")
        if fault == "short":
            await self.send(status, answer, part, cut=len(part) // 2)
        elif fault == "stall":
            await self.send(status, answer, part, cut=len(part) // 3)
            await asyncio.sleep(STORE.faults.stall_seconds)
        elif fault == "reset":
            await self.send(status, answer, part, cut=len(part) // 3)
            self.writer.transport.abort()
        return False  # the connection ends


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    server = await asyncio.start_server(lambda r, w: Connection(r, w).run(), "127.0.0.1", options.port, backlog=1024)
    print("port", server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, lambda: (loop.remove_reader(sys.stdin), ended.set_result(None)))
    await ended
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
