#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's training transforms on PIL images, with given crops: torch_transform.py FOLDER LIST CROPS

Decodes, crops, resizes, flips and normalises the files of LIST and prints one JSON line. CROPS has a line per file:
left top width height flip (0 or 1), in pixels of the image.
"""

import io
import json
import resource
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from torchvision.transforms import functional

SIDE = 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def transform(content, crop):
    left, top, width, height, flip = crop
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image = functional.resized_crop(image, top, left, height, width, [SIDE, SIDE])
    if flip:
        image = functional.hflip(image)
    return functional.normalize(functional.to_tensor(image), MEAN, DEVIATION).half()


def run(folder, names, crops_file):
    torch.set_num_threads(1)
    crops = [tuple(map(int, line.split())) for line in Path(crops_file).read_text(encoding="utf-8").splitlines()]
    contents = [(folder / name).read_bytes() for name in names]
    batch = torch.empty((256, 3, SIDE, SIDE), dtype=torch.float16)
    start = time.perf_counter()
    for i, (content, crop) in enumerate(zip(contents, crops)):
        batch[i % 256] = transform(content, crop)
    seconds = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"samples": len(names), "bytes": sum(map(len, contents)), "seconds": seconds,
                      "cpu_seconds": seconds, "peak_bytes": usage.ru_maxrss * 1024}))


def main():
    folder, listing, crops_file = sys.argv[1:4]
    run(Path(folder), Path(listing).read_text(encoding="utf-8").splitlines(), crops_file)


if __name__ == "__main__":
    main()
