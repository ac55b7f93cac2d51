#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Python's image decoders as users call them: peer_decoders.py PEER full|crop FOLDER LIST CROPS T

PEER: pil; pil-draft (libjpeg reduces while it decodes, where the crop allows it); torchvision; opencv (the whole image,
then the crop with INTER_AREA: also FFCV's way, by the same two libraries); opencv-reduced (IMREAD_REDUCED_COLOR_*).

Reads the files of LIST into memory, then decodes them on T threads (all three let go of the interpreter's lock while
they work in C) and prints one JSON line. With `crop`: the crop given for each file in CROPS ("left top width height
flip"), resized to 224 x 224, flipped, normalised, float16.
"""

import io
import json
import sys
import threading
import time
from pathlib import Path

SIDE = 224
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def pil():
    import torch
    from PIL import Image
    from torch_transform import transform

    torch.set_num_threads(1)

    def full(content):
        return Image.open(io.BytesIO(content)).convert("RGB").size

    return full, transform, bytes


# By how much an image may be reduced so that its crop still has SIDE pixels each way.
def reduction(width, height):
    return next((by for by in (8, 4, 2) if min(width, height) >= SIDE * by), 1)


def pil_draft():
    import numpy
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    mean, deviation = (torch.tensor(numbers)[:, None, None] for numbers in (MEAN, DEVIATION))

    def crop(content, box):
        left, top, width, height, flip = box
        image = Image.open(io.BytesIO(content))
        whole = image.size
        by = reduction(width, height)
        image.draft("RGB", (whole[0] // by, whole[1] // by))
        x, y = image.size[0] / whole[0], image.size[1] / whole[1]
        part = (left * x, top * y, min((left + width) * x, image.size[0]), min((top + height) * y, image.size[1]))
        image = image.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR, box=part)
        if flip:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)
        return pixels.float().div_(255).sub_(mean).div_(deviation).half()

    return None, crop, bytes


def torchvision():
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import functional

    torch.set_num_threads(1)

    def decode(content):
        return decode_jpeg(content, mode=ImageReadMode.RGB)

    def full(content):
        return decode(content).shape[1:]

    def crop(content, box):
        left, top, width, height, flip = box
        image = functional.crop(decode(content), top, left, height, width)
        image = functional.resize(image, [SIDE, SIDE], antialias=True)
        if flip:
            image = functional.hflip(image)
        return functional.normalize(image.float().div_(255), MEAN, DEVIATION, inplace=True).half()

    return full, crop, lambda content: torch.frombuffer(bytearray(content), dtype=torch.uint8)


def opencv_reduced():
    import cv2

    flags = {1: cv2.IMREAD_COLOR, 2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4,
             8: cv2.IMREAD_REDUCED_COLOR_8}

    def decode(content, width, height):
        by = reduction(width, height)
        return cv2.imdecode(content, flags[by] | cv2.IMREAD_IGNORE_ORIENTATION), by

    return opencv(decode)


def opencv(decode_reduced=None):
    import cv2
    import numpy

    cv2.setNumThreads(0)  # none besides the calling one
    scale = (1 / (255 * numpy.array(DEVIATION))).astype(numpy.float32)
    shift = (-numpy.array(MEAN) / numpy.array(DEVIATION)).astype(numpy.float32)

    def decode(content):
        return cv2.imdecode(content, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)

    def full(content):
        return decode(content).shape[:2]

    def crop(content, box):
        left, top, width, height, flip = box
        # INTER_AREA: what OpenCV has against aliasing; for an enlargement it is INTER_LINEAR.
        # The crop of a reduced image begins at a whole pixel of that.
        image, by = decode_reduced(content, width, height) if decode_reduced else (decode(content), 1)
        part = cv2.resize(image[top // by:(top + height) // by, left // by:(left + width) // by], (SIDE, SIDE),
                          interpolation=cv2.INTER_AREA)
        image = cv2.cvtColor(cv2.flip(part, 1) if flip else part, cv2.COLOR_BGR2RGB)
        return (image * scale + shift).transpose(2, 0, 1).astype(numpy.float16)

    return full, crop, lambda content: numpy.frombuffer(content, numpy.uint8)


PEERS = {"pil": pil, "pil-draft": pil_draft, "torchvision": torchvision, "opencv": opencv,
         "opencv-reduced": opencv_reduced}


def run_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(decode_all, samples):
    decode_all(range(min(50, samples)))  # warms up
    cpu, start = time.process_time(), time.perf_counter()
    pixels = decode_all(range(samples))
    return {"samples": samples, "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu,
            "pixels": pixels}


def run(peer, work, folder, listing, crops_file, thread_count):
    full, crop, prepare = PEERS[peer]()
    names = Path(listing).read_text(encoding="utf-8").splitlines()
    contents = [prepare((Path(folder) / name).read_bytes()) for name in names]
    crops = [tuple(map(int, line.split())) for line in Path(crops_file).read_text(encoding="utf-8").splitlines()]

    def decode_one(i):
        if work == "full":
            height, width = full(contents[i])
            return height * width
        assert tuple(crop(contents[i], crops[i]).shape) == (3, SIDE, SIDE)
        return SIDE * SIDE

    def decode_all(indices):
        pixels = [0] * thread_count

        def decode_share(number):
            pixels[number] = sum(decode_one(i) for i in indices[number::thread_count])

        run_threads(thread_count, decode_share)
        return sum(pixels)

    print(json.dumps(measure(decode_all, len(names))))


if __name__ == "__main__":
    run(*sys.argv[1:6], int(sys.argv[6]))
