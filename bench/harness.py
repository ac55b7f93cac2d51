# SPDX-License-Identifier: Apache-2.0
"""What every comparison shares: data sets, cache state, processes with their cost, mounts, and the rounds.

A comparison is a Row: two sides that read the same samples. compare() runs the sides alternately, so that what changes
on the machine meanwhile meets both, and looks at the ratio of each round.
"""

import contextlib
import itertools
import json
import mmap
import os
import random
import re
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from sources import READY_SECONDS, CannotRun, Failed, end_process, need_fuse, need_root, unmount, wait_until_mounted
from sweeper import holding

REPOSITORY = Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's torch; another one on PATH has not
PHOTOS = Path("/usr/share/backgrounds/mate")
# Of rows whose rounds take a second: where their memory lies and what else the host does moves the median of 5 rounds
# by a tenth from one call to the next.
SHORT_ROUNDS = 15
TELL_PEAK = """
import os, sys
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """One run of one side."""
    samples: int
    seconds: float
    bytes: int = 0
    cpu_seconds: float = 0
    peak_bytes: int = 0
    checksum: str | None = None  # XXH3 over all samples; None: this run could not know
    extra: dict = field(default_factory=dict)

    @property
    def rate(self):
        return self.samples / self.seconds

    @property
    def cpu_per_1000(self):
        return 1000 * self.cpu_seconds / self.samples


class Row:
    """One line of the table in MEASURING: subclasses say how to prepare and how to run a side.

    run() puts the caches into the same state for both sides before it measures.
    """
    name = ""
    bar = 1.0
    cpu_bar = None           # most of the other side's CPU per sample that is allowed
    variants = ("",)         # the row holds when each holds
    sides = ("headrace", "other")
    headrace_side = ""       # one line each, for the table
    other_side = ""
    other_is_bound = False   # what nothing can exceed, rather than another way to the same end
    rounds = 5

    def __init__(self, bench):
        self.bench = bench
        self.stack = contextlib.ExitStack()  # what prepare() set up

    def prepare(self):
        """Makes data and what both sides need. Raises CannotRun."""

    def run(self, side, variant):
        """Figures of one run of 'headrace' or 'other'."""
        raise NotImplementedError

    def run_round(self, number, variant):
        """Figures of both sides. The side that goes first changes, so that what the first run leaves behind favours
        neither."""
        return {side: self.run(side, variant) for side in (self.sides if number % 2 == 0 else reversed(self.sides))}

    def judge(self, variant, runs):
        """What the runs of a variant come to, a VariantResult."""
        return judge(self, variant, runs)

    def close(self):
        self.stack.close()


class Bench:
    """Where the programs and the data are, and how to start what is measured."""

    def __init__(self, work, build=None, quick=False, tree=REPOSITORY):
        """`build`: a build folder to use as it is; without it, the release preset of `tree` is built as needed."""
        self.work = Path(work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.use_own_folders()
        self.data = self.work  # where data sets lie
        self.quick = quick
        self.tree = tree
        self.build = Path(build).resolve() if build else tree / "build" / "release"
        self.build_here = build is None
        self.built = set()

    def use_own_folders(self):
        """Catalogs and indexes of JPEGs that other programs have left would change what is measured. Another revision
        may also read them in another format. What others mount meanwhile is no neighbour to share anything with."""
        os.environ["HEADRACE_CACHE_DIR"] = str(self.work / "cache")
        os.environ["HEADRACE_RUNTIME_DIR"] = str(self.work / "run")

    def program(self, target):
        """The path of a program of the project, built if need be."""
        if self.build_here and target not in self.built:
            self._build(target)
        place = {"headrace": "cli/headrace", "slow_fs": "tests/support/slow_fs",
                 "headrace_capi": "capi/libheadrace.so.1",
                 "jumping_clock": "tests/support/jumping_clock.so"}.get(target, f"bench/{target}")
        path = self.build / place
        if not path.exists():
            raise Failed(f"{path} is not built")
        return path

    def _build(self, target):
        log = self.work / "build.log"
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        with open(log, "ab") as output:
            for command in (["cmake", "--preset", "release", *launcher],
                            ["cmake", "--build", "--preset", "release", "--target", target]):
                if subprocess.run(command, cwd=self.tree, stdout=output, stderr=output, check=False).returncode != 0:
                    raise Failed(f"{target} does not build: see {log}")
        self.built.add(target)

    @staticmethod
    def cores():
        return len(os.sched_getaffinity(0))

    def count(self, full, quick):
        return quick if self.quick else full

    def data_set(self, files=4000, photos=False):
        """The standard data set, made once per work folder. `photos`: cut out of real photographs."""
        if photos and not PHOTOS.is_dir():
            raise CannotRun("the package mate-backgrounds is missing: no photographs to cut samples from")
        folder = self.data / f"set-{'photos-' if photos else ''}{files}"
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [self.program("headrace"), "synth", partial, "--files", files, "--classes", 100, "--seed", 1]
            command += ["--from", PHOTOS] if photos else []
            self.execute(command)
            partial.rename(folder)
        return folder

    def list_of(self, folder):
        return self.work / f"{Path(folder).name}.list"

    def file_list(self, folder, seed=1):
        """A file that lists the samples of `folder` in a shuffled order."""
        path = self.list_of(folder)
        if not path.exists():
            files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
            random.Random(seed).shuffle(files)
            path.write_text("".join(file + "\n" for file in files), encoding="utf-8")
        return path

    def execute(self, command, **options):
        """Runs to the end and returns the output. Raises Failed with its last line."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options}
        process = subprocess.run([str(word) for word in command], text=True, errors="replace", check=False, **options)
        if process.returncode != 0:
            last = ((process.stderr or process.stdout).strip().splitlines() or ["no output"])[-1]
            raise Failed(f"{Path(str(command[0])).name} ended with status {process.returncode}: {last}")
        return process.stdout

    def execute_json(self, command):
        """What a program says as JSON, without what it tells people beside it (how far it is, on a slow machine)."""
        return json.loads(self.execute(command, stderr=subprocess.PIPE))

    def run_program(self, command):
        """Runs a program; what it printed, and what it and its children took (a struct_rusage)."""
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        with holding("process", process.pid):
            return finish(process)

    def peak_bytes_of(self, command):
        """The most memory that a program took. What wait4(2) tells of a child of this process is at least what this one
        takes itself, because the child is a copy of it until it calls exec(2); hence a small parent in between."""
        return int(self.execute([PYTHON, "-I", "-S", "-c", TELL_PEAK, *command]).splitlines()[-1])

    def measure(self, command, daemons=(), wait_for_go=None, **options):
        """Runs a program that ends with one JSON line of figures; adds the CPU time and memory it took.

        `daemons`: process ids whose work during the run counts too, with their descendants. `wait_for_go`: the program
        says when its imports are done and then waits; this function runs in between, untimed.
        """
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, **options)
        with holding("process", process.pid):
            try:
                if wait_for_go:
                    if process.stdout.readline().strip() != "ready":
                        raise Failed(f"{command[1]} did not start")
                    daemons = wait_for_go() or daemons
                before = sum(cpu_seconds_of_tree(pid) for pid in daemons)
                for pid in daemons:
                    forget_peaks(pid)
                if wait_for_go:
                    process.stdin.write("go\n")
                process.stdin.close()
            except BaseException:
                end_process(process)
                raise
            output, usage = finish(process)
        figures = figures_of(json.loads(output.strip().splitlines()[-1]), usage)
        figures.cpu_seconds += sum(cpu_seconds_of_tree(pid) for pid in daemons) - before
        figures.peak_bytes += sum(peak_bytes_of_tree(pid) for pid in daemons)
        return figures

    def sum_of(self, folder, samples):
        """XXH3 over the listed files as seen through `folder`; not part of any timing."""
        command = [self.program("read_files"), folder, samples, "--sum", "--threads", 16]
        return json.loads(self.execute(command).strip().splitlines()[-1])["xxh3"]

    def drop_caches(self):
        need_root("drop the page cache")
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")

    @staticmethod
    def forget(folder):
        """Takes the content of a folder's files out of the page cache, and nothing else."""
        for file in Path(folder).rglob("*"):
            if file.is_file():
                descriptor = os.open(file, os.O_RDONLY)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(descriptor)

    def warm(self, folder, samples):
        """Brings the content of the listed files into the page cache."""
        self.execute([self.program("read_files"), folder, samples])

    def warm_by_pages(self, folder):
        """All files of a folder, each page by itself: no folio of the page cache is larger than that."""
        self.forget(folder)
        for file in Path(folder).rglob("*"):
            if not file.is_file():
                continue
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # read-ahead makes large ones
            for offset in range(0, os.fstat(descriptor).st_size, mmap.PAGESIZE):
                os.pread(descriptor, 1, offset)
            os.close(descriptor)


def need_torchvision():
    """Looks for it without importing it, which takes seconds."""
    script = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torchvision') is None)"
    if subprocess.run([PYTHON, "-c", script], check=False).returncode != 0:
        raise CannotRun("the package python3-torchvision is missing")


def finish(process):
    """Waits for the end of a process that prints to a pipe: its output, and what it and its children took."""
    try:
        output = process.stdout.read()
        # Not process.wait(): only this call also gives the kernel's account.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    except BaseException:
        end_process(process)
        raise
    finally:
        process.stdout.close()
    if process.returncode != 0:
        raise Failed(f"{Path(process.args[0]).name} ended with status {process.returncode}")
    return output, usage


def figures_of(result, usage):
    """A program's JSON line; where it does not say what it took, the kernel's account of the whole process does."""
    return Figures(samples=result.pop("samples"), seconds=result.pop("seconds"), bytes=result.pop("bytes", 0),
                   cpu_seconds=result.pop("cpu_seconds", usage.ru_utime + usage.ru_stime),
                   peak_bytes=result.pop("peak_bytes", usage.ru_maxrss * 1024), checksum=result.pop("xxh3", None),
                   extra=result)


class Against(Row):
    """The headrace side of a row in two builds: this one, and that of another revision."""
    sides = ("headrace", "other")

    def __init__(self, row_type, bench, revision):
        super().__init__(bench)
        self.rows = {"headrace": row_type(bench), "other": row_type(bench_of_revision(bench, revision))}
        self.name = f"{row_type.name}:{revision}"
        self.variants, self.rounds = row_type.variants, row_type.rounds
        self.headrace_side = f"{row_type.headrace_side}, this revision"
        self.other_side = f"the same in {revision}"

    def prepare(self):
        for row in self.rows.values():
            self.stack.callback(row.close)
            row.bench.use_own_folders()
            row.prepare()

    def run(self, side, variant):
        self.rows[side].bench.use_own_folders()
        return self.rows[side].run("headrace", variant)


def bench_of_revision(bench, revision):
    """Another revision's programs on the same data: its tree lies below the work folder and is built as needed."""
    commit = bench.execute(["git", "rev-parse", "--verify", revision + "^{commit}"], cwd=REPOSITORY).strip()
    work = bench.work / f"revision-{commit[:12]}"  # what a row leaves in its work folder is not the other's
    tree = work / "tree"
    if not tree.exists():
        bench.execute(["git", "worktree", "prune"], cwd=REPOSITORY)
        bench.execute(["git", "worktree", "add", "--force", "--detach", tree, commit], cwd=REPOSITORY)
    other = Bench(work, quick=bench.quick, tree=tree)
    other.data = bench.data
    return other


def ram_for(pushed_bytes):
    """What to ask for so that a mount may push so much: an eighth, at least 32 MiB, is for what is on its way."""
    return pushed_bytes + max(32 << 20, pushed_bytes // 7 + 1)


class Mount:
    """A headrace mount in the foreground, so that its cost can be told: `with Mount(bench, source, ...) as mount`."""

    numbers = itertools.count(1)  # several may be mounted at once

    def __init__(self, bench, source, *options, mountpoint=None, preexec_fn=None):
        self.bench = bench
        self.path = Path(mountpoint or bench.work / f"mount-{os.getpid()}-{next(self.numbers)}")
        self.command = [bench.program("headrace"), "mount", source, self.path, "--foreground", *options]
        self.preexec_fn = preexec_fn
        self.process = None
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        need_fuse()
        with contextlib.ExitStack() as stack:
            self.path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(holding("folder", self.path))
            stack.callback(self.path.rmdir)
            stack.enter_context(holding("mount", self.path))
            stack.callback(unmount, self.path)
            log = stack.enter_context(open(self.bench.work / "mount.log", "ab"))
            self.process = subprocess.Popen([str(word) for word in self.command], stdout=log, stderr=log,
                                            preexec_fn=self.preexec_fn)
            stack.enter_context(holding("process", self.process.pid))
            stack.callback(end_process, self.process)
            wait_until_mounted(self.path, self.process)
            self.stat()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    @property
    def pid(self):
        return self.process.pid

    def stat(self):
        """Waits for the successor of a worker that has died."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return self.bench.execute_json([self.bench.program("headrace"), "stat", self.path, "--json"])
            except Failed:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def set(self, *settings):
        self.bench.execute([self.bench.program("headrace"), "set", self.path, *settings])

    def push_everything(self):
        self.bench.execute([self.bench.program("headrace"), "warm", self.path, "--ram"])


def process_tree(pid):
    """`pid` and its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents.setdefault(int(stat_fields(entry.name)[1]), []).append(int(entry.name))
    tree = [pid]
    for member in tree:
        tree += parents.get(member, [])
    return tree


def stat_fields(pid):
    """The fields of /proc/PID/stat from the state on; the name before them may hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def cpu_seconds_of_tree(pid):
    """User and system time of a process and its descendants, those that have ended included."""
    total = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            total += sum(int(ticks) for ticks in stat_fields(member)[11:15])
    return total / TICKS_PER_SECOND


def forget_peaks(pid):
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")  # resets VmHWM (proc(5))


def memory_of_tree(pid, field):
    """Bytes of a process and its descendants; `field` of proc(5)'s status: VmHWM or VmRSS."""
    total = 0
    for member in process_tree(pid):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{member}/status").read_text(errors="replace").splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
    return total


def peak_bytes_of_tree(pid):
    return memory_of_tree(pid, "VmHWM")


@dataclass
class Result:
    """What one row came to."""
    name: str
    bar: float
    variants: list  # of VariantResult

    @property
    def deciding(self):
        """The variant that is furthest from its bar."""
        return min(self.variants, key=lambda variant: variant.median)

    @property
    def met(self):
        return all(variant.met for variant in self.variants)

    def last_line(self):
        ratio = self.deciding
        return (f"{self.name} ratio={ratio.median:.2f} min={min(ratio.ratios):.2f} max={max(ratio.ratios):.2f} "
                f"bar={self.bar:.2f} {'met' if self.met else 'short'}")


    def to_json(self):
        variants = [{"variant": variant.variant, "ratios": variant.ratios, "met": variant.met,
                     "runs": {side: [vars(run) for run in runs] for side, runs in variant.runs.items()}}
                    for variant in self.variants]
        return {"name": self.name, "bar": self.bar, "met": self.met, "ratio": self.deciding.median,
                "variants": variants}


@dataclass
class VariantResult:
    variant: str
    runs: dict    # side -> [Figures]
    ratios: list  # of throughput, one per round
    met: bool

    @property
    def median(self):
        return statistics.median(self.ratios)


def compare(row, rounds, report=print):
    """Runs all rounds of a row that is prepared."""
    results = []
    for variant in row.variants:
        runs = {side: [] for side in row.sides}
        for number in range(rounds):
            for side, figures in row.run_round(number, variant).items():
                runs[side].append(figures)
                report(f"  round {number + 1} {variant:>12} {side:>9}: {figures.rate:10.1f} samples/s")
        check_same_bytes(runs)
        results.append(row.judge(variant, runs))
    return Result(row.name, row.bar, results)


def check_same_bytes(runs):
    sums = {figures.checksum for side in runs.values() for figures in side if figures.checksum}
    if len(sums) > 1:
        raise Failed(f"the sides read different bytes: XXH3 {sorted(sums)}")
    if not sums:
        raise Failed("no side said what it read")


def judge(row, variant, runs):
    ours, theirs = (runs[side] for side in row.sides)
    ratios = [mine.rate / other.rate for mine, other in zip(ours, theirs)]
    met = statistics.median(ratios) >= row.bar
    if row.cpu_bar:
        cpu = statistics.median(mine.cpu_seconds / other.cpu_seconds for mine, other in zip(ours, theirs))
        met = met and cpu <= row.cpu_bar
    return VariantResult(variant, runs, ratios, met)


def median_of(figures, attribute):
    return statistics.median(getattr(run, attribute) for run in figures)


def machine():
    """What a reader of the figures needs to know about the machine."""
    processors = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in processors if line.startswith("model name")), "unknown")
    memory_kib = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    return {"processor": model, "cores": os.cpu_count(), "memory_bytes": memory_kib * 1024,
            "kernel": os.uname().release, "version": version(), "revision": revision()}


def version():
    project = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8").partition("project(")[2]
    return re.search(r"VERSION (\S+)", project)[1]


def revision():
    try:
        return subprocess.run(["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
