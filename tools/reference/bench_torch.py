"""Times one BDO training step or one embedding batch in PyTorch; prints one JSON line.

With --serve it warms up, then answers each line `step` on stdin with the milliseconds of one step, until
`quit`, so that a driver can alternate with another process on a noisy machine.
"""

import argparse
import ctypes
import json
import os
import resource
import statistics
import sys
import time

if "amx" in open("/proc/cpuinfo").read():
    # oneDNN's AMX kernels crashed on the virtual machine with AMX that was tried. This must be set before
    # torch is imported; set the variable yourself to lift the limit where they work.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch  # noqa: E402
from bdo_torch import BdoConfig  # noqa: E402
from fast_bdo import SIZES, FastBdo, draw_step, encoder_flops, train_flops  # noqa: E402


def keep_freed_memory() -> None:
    """By default glibc returns every large tensor to the kernel and pays page faults for the next one.

    The gain was within the noise when measured; it stays so that the comparison cannot hinge on it."""
    m_trim_threshold, m_mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=["train", "embed"], default="train")
    parser.add_argument("--size", choices=list(SIZES), default="tiny")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--regions", type=int, default=450)
    parser.add_argument("--frames", type=int, default=160)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--attention", choices=["auto", "fused", "explicit"], default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true")
    return parser.parse_args()


def make_step(args: argparse.Namespace, config: BdoConfig, targets: int):
    if args.mode == "compile" and args.task == "embed":
        # Weights are constant when embedding, so the compiler may pack them once.
        torch._inductor.config.freezing = True
    attention = "auto-embed" if (args.attention, args.task) == ("auto", "embed") else args.attention
    bench = FastBdo(config, args.seed, args.mode == "compile", args.precision == "bf16", attention)
    torch.manual_seed(args.seed)
    series = torch.randn(args.batch, args.frames, args.regions)
    # Irregular sampling of a long scan: mean gap 0.22 scaled units, as the specification reckons for UKB.
    times = (torch.rand(args.batch, args.frames) * 0.42 + 0.01).cumsum(1)

    def train() -> None:
        draw = draw_step(args.batch, args.frames, targets, config.width)
        bench.train_step(series, times, draw).item()

    def embed() -> None:
        bench.embed(series, times)

    return train if args.task == "train" else embed


def milliseconds(step) -> tuple[float, float]:
    """Wall time, and processor time over all threads: the latter still means something on a busy machine."""
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - processor)


def main() -> None:
    args = parse()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    width, heads = SIZES[args.size]
    config = BdoConfig(width=width, heads=heads, regions=args.regions)
    targets = int(0.75 * args.frames + 0.5)
    step = make_step(args, config, targets)
    for _ in range(max(args.warmup, 1)):
        step()
    if args.serve:
        print("ready", file=sys.stderr, flush=True)
        for line in sys.stdin:
            if line.strip() == "step":
                print(f"{milliseconds(step)[0]:.3f}", flush=True)
            elif line.strip() == "quit":
                return
        return
    laps = [milliseconds(step) for _ in range(args.steps)]
    if args.task == "train":
        flops = train_flops(config, args.batch, args.frames - targets, targets)
    else:
        flops = args.batch * encoder_flops(config, args.frames)
    report = {
        "task": args.task,
        "size": args.size,
        "batch": args.batch,
        "mode": args.mode,
        "precision": args.precision,
        "threads": args.threads,
        "median_ms": round(statistics.median(wall for wall, _ in laps), 3),
        "min_ms": round(min(wall for wall, _ in laps), 3),
        "steps": args.steps,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "flops_per_step": flops,
        "median_cpu_ms": round(statistics.median(processor for _, processor in laps), 3),
        "min_cpu_ms": round(min(processor for _, processor in laps), 3),
        "attention": args.attention,
        "regions": args.regions,
        "frames": args.frames,
        "onednn_max_cpu_isa": os.environ.get("ONEDNN_MAX_CPU_ISA"),
        "torch": torch.__version__,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
