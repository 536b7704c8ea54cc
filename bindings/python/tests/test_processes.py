"""Threads, forks, signals and memory."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import bdo


def ask(model, cohort, number):
    return model.embed(cohort.series(number), tr=cohort.tr(number), regions=cohort.regions)


def test_two_threads_and_one_model(cohort, model):
    expected = [ask(model, cohort, i % 4) for i in range(40)]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda i: ask(model, cohort, i % 4), range(40)))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected))


def test_other_threads_run_meanwhile(work, cohort):
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counting = threading.Thread(target=count)
    counting.start()
    bdo.simulate(work / "meanwhile", subjects=20, regions=100, frames=300)
    stop.set()
    counting.join()
    assert counted[0] > 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_works(cohort, model):
    expected = ask(model, cohort, 0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        said = b"wrong"
        try:
            same = np.array_equal(ask(model, cohort, 0), expected)
            try:
                bdo.simulate(cohort.folder.with_name("forked"), subjects=2, regions=12, frames=50)
            except RuntimeError as error:
                refused = "found a fork of process" in str(error)
            said = b"right" if same and refused else said
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    ended, deadline = (0, 0), time.monotonic() + 60
    while ended[0] == 0 and time.monotonic() < deadline:
        ended = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert os.read(reading, 10) == b"right"
    os.close(reading)


FORKED = """
import bdo, os, sys
child = os.fork()
cohort = bdo.Cohort(sys.argv[1])
found = bdo.load(sys.argv[2]).embed(cohort)
made = bdo.simulate(f"{sys.argv[3]}/{child == 0}", subjects=2, regions=12, frames=50)
if child == 0:
    found.tofile(f"{sys.argv[3]}/features")
    os._exit(0 if len(made) == 2 else 1)
ended = os.waitpid(child, 0)[1]
print(ended, open(f"{sys.argv[3]}/features", "rb").read() == found.tobytes())
"""


def test_a_fork_after_import(cohort, model, tmp_path):
    words = [sys.executable, "-c", FORKED, str(cohort.folder), str(model.folder), str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["0", "True"], ended.stderr


INTERRUPTED = """
import bdo, os, signal, sys, threading, time
# A shell that starts its jobs in the background has them ignore Ctrl-C, and Python goes by that.
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    while not os.path.exists(sys.argv[2] + "/journal.jsonl"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    bdo.pretrain(sys.argv[1], out=sys.argv[2], set=["train.epochs=100000", "model.width=16"])
except KeyboardInterrupt:
    print("interrupted")
run = bdo.pretrain(sys.argv[1], out=sys.argv[2] + "-b", set=["train.epochs=1", "model.width=16"])
print(len(run.journal()))
"""


def test_ctrl_c_ends_a_training_and_the_process_goes_on(cohort, tmp_path):
    words = [sys.executable, "-c", INTERRUPTED, str(cohort.folder), str(tmp_path / "run")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert ended.stdout.split() == ["interrupted", "1"], ended.stderr
    # What was interrupted can be gone on with.
    assert (tmp_path / "run" / "checkpoints").is_dir()


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_memory_does_not_grow(cohort, model):
    series, tr = cohort.series(0), cohort.tr(0)
    for _ in range(100):
        model.embed(series, tr=tr, regions=cohort.regions)
    before = resident_kib()
    for _ in range(1000):
        model.embed(series, tr=tr, regions=cohort.regions)
    assert resident_kib() - before < 4096


def test_errors_do_not_leak(cohort, model):
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("memory is read from /proc")
    series = np.full((400, 12), np.inf)
    for round in range(1100):
        with pytest.raises(bdo.DataError):
            model.embed(series, tr=1.0, regions=cohort.regions)
        if round == 100:
            before = resident_kib()
    assert resident_kib() - before < 4096
