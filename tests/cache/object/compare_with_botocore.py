#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our signatures of 10 000 random keys with those of Debian's botocore.

    compare_with_botocore.py SIGN_REQUESTS
"""
import datetime
import random
import subprocess
import sys
from unittest import mock

try:
    import botocore.auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.utils import percent_encode
except ImportError:
    print("skipped: python3-botocore is not installed")
    sys.exit(77)

PIECES = ["a", "Z", "0", " ", "  ", "=", "+", "%", "%20", "~", "/", "//", "ä", "日本", "🙂", "&", "?", "#", "'",
          '"', "*", "(", ")", "!", "$", ",", ";", ":", "@", "[", "]", "\\", "^", "`", "|", "{", "}", "<", ">",
          ".", "..", "-", "_", "\n", "\x7f", "e\u0301"]


def random_name(draw):
    return "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 20)))


def main():
    draw = random.Random(20250101)
    names = [(random_name(draw), random_name(draw)) for _ in range(10_000)]
    host = "bucket.s3.eu-west-1.amazonaws.com"
    first = datetime.datetime(2024, 2, 28, 23, 0, 0)
    times = [first + datetime.timedelta(seconds=17 * i) for i in range(len(names))]
    lines = [f"{int(time.replace(tzinfo=datetime.timezone.utc).timestamp())} {host} {key.encode().hex()} "
             f"{prefix.encode().hex()}\n" for time, (key, prefix) in zip(times, names)]
    ours = subprocess.run([sys.argv[1]], input="".join(lines), capture_output=True, text=True, check=True).stdout
    auth = botocore.auth.S3SigV4Auth(
        Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/token+with=signs"), "s3", "eu-west-1")
    wrong = 0
    answers = ours.splitlines()
    assert len(answers) == len(names), (len(answers), len(names))
    for answer, time, (key, prefix) in zip(answers, times, names):
        target, authorization = answer.split("\t")
        # What botocore's serializers make of a key and of a parameter.
        expected = "/" + percent_encode(key, safe="/~")
        request = AWSRequest("GET", f"http://{host}{expected}", params={"list-type": "2", "prefix": prefix})
        with mock.patch("botocore.auth.datetime.datetime") as clock:
            clock.utcnow.return_value = time
            auth.add_auth(request)
        if target.split("?")[0] != expected or authorization != request.headers["Authorization"]:
            wrong += 1
            if wrong <= 5:
                print(f"{key!r} {prefix!r}\n  ours   {target} {authorization}\n  theirs {expected} "
                      f"{request.headers['Authorization']}")
    print(f"{len(names)} requests, {wrong} of them signed otherwise")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
