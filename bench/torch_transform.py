#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision's training transforms on PIL images, with crops given beforehand so that others can make the same.

    torch_transform.py draw FOLDER LIST CROPS       draws a crop for each file of LIST, as RandomResizedCrop would
    torch_transform.py run FOLDER LIST CROPS        decodes, crops, resizes, flips, normalises; prints one JSON line

CROPS has one line per file of LIST: left top width height flip (0 or 1), in pixels of the image.
"""

import io
import json
import resource
import sys
import time
from pathlib import Path

import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

SIDE = 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def draw(folder, names, crops_file):
    torch.manual_seed(1)
    with open(crops_file, "w", encoding="utf-8") as output:
        for name in names:
            with Image.open(folder / name) as image:
                crop = transforms.RandomResizedCrop.get_params(image, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
            top, left, height, width = crop
            output.write(f"{left} {top} {width} {height} {int(torch.rand(1) < 0.5)}\n")


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
    action, folder, listing, crops_file = sys.argv[1:5]
    names = Path(listing).read_text(encoding="utf-8").splitlines()
    {"draw": draw, "run": run}[action](Path(folder), names, crops_file)


if __name__ == "__main__":
    main()
