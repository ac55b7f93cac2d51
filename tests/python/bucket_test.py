# SPDX-License-Identifier: Apache-2.0
"""A bucket as a data set: the samples are those of the folder that was put there."""
import os
import subprocess
import sys
import unittest
import urllib.parse
import urllib.request
from unittest import mock

import support
import headrace as hr

SERVER = support.ROOT / "tests/cache/object/object_server.py"
CROP = [hr.RandomResizedCrop(16), hr.RandomHorizontalFlip()]


class BucketTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = support.synth("data", files=40, classes=3)
        server = subprocess.Popen([sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(server.stdout.close)
        cls.addClassCleanup(server.wait, support.WAIT_SECONDS)
        cls.addClassCleanup(server.stdin.close)  # which ends it
        cls.url = f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
        for path in cls.folder.glob("*/*"):
            cls.put(f"train/{path.relative_to(cls.folder)}", path.read_bytes())
        environment = mock.patch.dict(os.environ, AWS_ENDPOINT_URL=cls.url, AWS_REGION="us-east-1",
                                      AWS_ACCESS_KEY_ID="AKIDEXAMPLE",
                                      AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
        environment.start()
        cls.addClassCleanup(environment.stop)

    @classmethod
    def put(cls, key, content):
        request = urllib.request.Request(f"{cls.url}/_put?key={urllib.parse.quote(key)}", data=content, method="POST")
        with urllib.request.urlopen(request) as answer:
            answer.read()

    def test_classes_labels_and_pixels_are_the_folders(self):
        here, there = hr.ImageFolder(self.folder, ram="64M"), hr.ImageFolder("s3://bucket/train", ram="64M")
        self.assertEqual((there.classes, there.targets, len(there)), (here.classes, here.targets, len(here)))
        self.assertEqual(there.samples[0][0], f"s3://bucket/train/{os.path.relpath(here.samples[0][0], self.folder)}")
        made = [[(images.tobytes(), labels.tolist()) for images, labels in
                 hr.DataLoader(data, 8, shuffle=True, transform=CROP, output="buffer")] for data in (here, there)]
        self.assertEqual(*made)

    def test_files_are_bytes_of_the_objects(self):
        names = sorted(path for path in self.folder.glob("*/*"))
        loader = hr.DataLoader(hr.Files("s3://bucket/train", ram="64M"), 7)
        samples = [sample for batch, _ in loader for sample in batch]
        self.assertEqual(samples, [name.read_bytes() for name in names])

    def test_a_server_that_is_not_there_is_an_error(self):
        with mock.patch.dict(os.environ, AWS_ENDPOINT_URL="http://127.0.0.1:1"):
            with self.assertRaisesRegex(OSError, "127.0.0.1:1"):
                hr.ImageFolder("s3://bucket/train", ram="64M")

    def test_a_folder_without_images_is_no_class_and_moves_no_name(self):
        for path in self.folder.glob("*/*"):
            self.put(f"mixed/{path.relative_to(self.folder)}", path.read_bytes())
        self.put("mixed/docs/read.me", b"no image")
        with self.assertRaisesRegex(FileNotFoundError, "1 of its 4 folders have no image"):
            hr.ImageFolder("s3://bucket/mixed", ram="64M")

    def test_a_prefix_without_objects_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "s3://bucket/nothing"):
            hr.ImageFolder("s3://bucket/nothing", ram="64M")


if __name__ == "__main__":
    support.main()
