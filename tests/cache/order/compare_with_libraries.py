#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws random cases with torch, numpy and random, and compares them with our orders.

  compare_with_libraries.py PRINT_ORDERS      (HEADRACE_TEST_SEED=N repeats a run)

Ends with 77 where torch or numpy is not installed.
"""
import itertools
import os
import random
import subprocess
import sys
import time

try:
    import numpy
    import torch
    from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SubsetRandomSampler, random_split
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CASES = int(os.environ.get("HEADRACE_TEST_CASES", "60"))  # of each kind
SEED = int(os.environ.get("HEADRACE_TEST_SEED", str(int(time.time()))))
VERSION = ".".join(torch.__version__.split(".")[:2])


def generator(seed):
    made = torch.Generator()
    made.manual_seed(seed)
    return made


def a_seed(draw):
    return draw.choice([draw.randrange(100), draw.randrange(2**32), draw.randrange(2**63)])


def distributed(draw):
    n, replicas = draw.randint(1, 3000), draw.randint(1, 9)
    rank, seed, epoch = draw.randrange(replicas), a_seed(draw), draw.randrange(200)
    drop_last, shuffle = draw.random() < 0.5, draw.random() < 0.9
    sampler = DistributedSampler(range(n), replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    spec = (f"torch-distributed:seed={seed},replicas={replicas},rank={rank},drop_last={int(drop_last)},"
            f"shuffle={int(shuffle)}")
    if n < replicas and drop_last:
        return None  # torch gives every rank a length of 0 and then asserts
    return n, [(epoch, list(sampler))], spec


def loader_epochs(loader, count):
    return [(epoch, [int(i) for batch in loader for i in batch]) for epoch in range(count)]


def random_default(draw):
    n, batch, seed, drop_last = draw.randint(1, 2000), draw.randint(1, 70), a_seed(draw), draw.random() < 0.5
    torch.manual_seed(seed)
    drawn_before = 2 * draw.randrange(500)
    torch.empty(drawn_before // 2, dtype=torch.int64).random_()  # 64 bits each: two outputs
    loader = DataLoader(range(n), batch_size=batch, shuffle=True, drop_last=drop_last)
    spec = f"torch-random:torch={VERSION},seed={seed},offset={drawn_before},batch={batch},drop_last={int(drop_last)}"
    return n, loader_epochs(loader, 3), spec


def random_explicit(draw):
    n, batch, seed, drop_last = draw.randint(1, 2000), draw.randint(1, 70), a_seed(draw), draw.random() < 0.5
    loader = DataLoader(range(n), batch_size=batch, shuffle=True, drop_last=drop_last, generator=generator(seed))
    spec = f"torch-random:torch={VERSION},generator=explicit,seed={seed},batch={batch},drop_last={int(drop_last)}"
    return n, loader_epochs(loader, 3), spec


def random_replacement(draw):
    n, picked, seed = draw.randint(1, 2000), draw.randint(1, 3000), a_seed(draw)
    sampler = RandomSampler(range(n), replacement=True, num_samples=picked, generator=generator(seed))
    spec = f"torch-random:generator=explicit,loader=0,replacement=1,num_samples={picked},seed={seed}"
    return n, [(epoch, list(sampler)) for epoch in range(3)], spec


def random_stopped(draw):
    """Epochs that are left before their end: what was asked for until then decides how the next one begins."""
    n, batch, seed, drop_last = draw.randint(1, 300), draw.randint(1, 40), a_seed(draw), draw.random() < 0.5
    replacement, given = draw.random() < 0.5, draw.random() < 0.7
    picked = draw.choice([draw.randint(1, 900), n * draw.randint(1, 3)]) if given else n
    drawn_by = generator(seed) if given else None
    sampler = RandomSampler(range(n), replacement=replacement, num_samples=picked, generator=drawn_by)
    workers = 2 if draw.random() < 0.1 else 0  # few: each pass starts processes
    batches = picked // batch if drop_last else -(-picked // batch)
    stop = draw.randint(1, max(1, batches))
    torch.manual_seed(seed)
    loader = DataLoader(range(n), batch_size=batch, sampler=sampler, drop_last=drop_last, generator=drawn_by,
                        num_workers=workers)
    epochs = [(epoch, [int(i) for batch in itertools.islice(loader, stop) for i in batch]) for epoch in range(3)]
    spec = (f"torch-random:torch={VERSION},generator={'explicit' if given else 'default'},seed={seed},batch={batch},"
            f"drop_last={int(drop_last)},replacement={int(replacement)},num_samples={picked},stop={stop},"
            f"workers={workers}")
    return n, epochs, spec


def subset(draw):
    n, step, seed = draw.randint(2, 2000), draw.randint(1, 5), a_seed(draw)
    start = draw.randrange(n)
    sampler = SubsetRandomSampler(range(start, n, step), generator=generator(seed))
    spec = f"torch-subset:range={start}:{n}:{step},loader=0,seed={seed}"
    return n, [(epoch, list(sampler)) for epoch in range(3)], spec


def split(draw):
    n, seed = draw.randint(2, 2000), a_seed(draw)
    first = draw.randrange(n)
    parts = random_split(range(n), [first, n - first], generator=generator(seed))
    part = draw.randrange(2)
    spec = f"torch-subset:split={first}/{n - first},part={part},split_seed={seed},of=sequential"
    return n, [(0, list(parts[part].indices))], spec


def numpy_state(draw):
    n, seed = draw.randint(1, 3000), draw.randrange(2**32)
    state = numpy.random.RandomState(seed)
    return n, [(epoch, list(state.permutation(n))) for epoch in range(3)], f"numpy:seed={seed}"


def numpy_generator(draw):
    n, seed = draw.randint(1, 3000), draw.choice([a_seed(draw), draw.randrange(2**127)])
    made = numpy.random.default_rng(seed)
    return n, [(epoch, list(made.permutation(n))) for epoch in range(3)], f"numpy:rng=generator,seed={seed}"


def python_shuffle(draw):
    n, seed = draw.randint(1, 3000), draw.choice([-1, 1]) * draw.choice([a_seed(draw), draw.randrange(2**127)])
    made, items, epochs = random.Random(seed), list(range(n)), []
    for epoch in range(3):
        made.shuffle(items)
        epochs.append((epoch, list(items)))
    return n, epochs, f"python:seed={seed},cumulative=1"


def python_sample(draw):
    n, seed = draw.randint(1, 3000), a_seed(draw)
    picked = draw.randint(1, n)
    return n, [(0, random.Random(seed).sample(range(n), picked))], f"python:seed={seed},sample={picked}"


def ask(program, n, epoch, spec):
    program.stdin.write(f"{n} {epoch} {spec}\n")
    program.stdin.flush()
    answer = program.stdout.readline()
    return answer.strip() if answer.startswith("error") else [int(word) for word in answer.split()]


def main():
    print(f"HEADRACE_TEST_SEED={SEED}, torch {torch.__version__}, numpy {numpy.__version__}")
    draw = random.Random(SEED)
    kinds = [distributed, random_default, random_explicit, random_replacement, random_stopped, subset, split,
             numpy_state, numpy_generator, python_shuffle, python_sample]
    compared = failed = 0
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        for case in (kind(draw) for kind in kinds for _ in range(CASES)):
            if case is None:
                continue
            n, epochs, spec = case
            for epoch, expected in epochs:
                compared += 1
                given = ask(program, n, epoch, spec)
                if given != [int(i) for i in expected]:
                    failed += 1
                    print(f"DIFFERS: {spec}, n={n}, epoch {epoch}: {str(expected)[:60]} != {str(given)[:60]}")
        program.stdin.close()
    print(f"{compared} epochs compared, {failed} differ")
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
