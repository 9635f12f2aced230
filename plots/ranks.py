#!/usr/bin/env python3
"""Measures sums over ranks, a residual add and a norm, each rank on a GPU of its own; writes a CSV.

    torchrun --nproc-per-node 2 plots/ranks.py --library build/.../librmsnorm.so --csv ranks.csv

librmsnorm's kernel is beside NCCL's all-reduce, and beside those of torch's symmetric memory, which
copy x to their buffers first, each followed by librmsnorm's residual add. The time of a call is that
of the slowest rank, in a CUDA graph of many. Where ranks share a GPU, results are verified, and times left empty.
"""

import csv
import os
import statistics
import sys

from peers_harness.program import DONE, FAILED, ROOT, parser_for, revision_for, run, say

EPS = 1e-6
FIELDS = [
    "implementation", "ranks", "gpus", "dtype", "rows", "hidden", "bytes_of_rank", "median_us",
    "spread_pct", "samples", "verdict", "device", "driver", "cuda", "torch", "revision", "date"]


def parse():
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 16, 64, 256, 1024, 4096])
    parser.add_argument("--hidden", type=int, nargs="+", default=[4096, 5120, 7168, 8192])
    parser.add_argument("--calls", type=int, default=20, help="of a graph (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=50, help="graphs (default: %(default)s)")
    return parser.parse_args()


def implementations(ranks, symmetric, binding, group):
    """Each is a function of x, the residual, the weight and y, which may overwrite x with the sum."""
    import torch
    import torch.distributed as dist

    def ours(protocol):
        return lambda x, residual, weight, y: binding.all_reduce_residual_add(
            x, residual, weight, EPS, ranks.address.value, y, protocol)

    def nccl(x, residual, weight, y):
        dist.all_reduce(x)
        binding.residual_add(x, residual, weight, EPS, y)

    def one_shot(x, residual, weight, y):
        shared = symmetric[:x.numel()].view(x.shape)
        shared.copy_(x)
        total = torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", group)
        binding.residual_add(total, residual, weight, EPS, y)

    def two_shot(x, residual, weight, y):
        shared = symmetric[:x.numel()].view(x.shape)
        shared.copy_(x)
        torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", group)
        binding.residual_add(shared, residual, weight, EPS, y)

    found = {"librmsnorm": ours(binding.BY_SIZE), "librmsnorm/one_shot": ours(binding.ONE_SHOT),
             "librmsnorm/two_shot": ours(binding.TWO_SHOT), "all_reduce": nccl}
    if symmetric is not None:
        found |= {"torch/one_shot": one_shot, "torch/two_shot": two_shot}
    return found


def verdict_of(call, x, residual, weight, total):
    """Whether the result is right on this rank: the residual within what roundings of bf16 explain."""
    import torch

    x, residual, y = x.clone(), residual.clone(), torch.empty_like(x)
    value = total + residual.float()
    call(x, residual, weight, y)
    norm = value * (value.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight.float()
    close = torch.allclose(residual.float(), value, rtol=2**-6, atol=2**-5)
    return close and torch.allclose(y.float(), norm, rtol=2**-5, atol=2**-5)


def times_of(call, tensors, options):
    """Microseconds of a call, one of each graph: the slowest rank's."""
    import torch
    import torch.distributed as dist

    for _ in range(3):
        call(*tensors)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(options.calls):
            call(*tensors)
    times = []
    for _ in range(options.samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / options.calls)
    slowest = torch.tensor(times, device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def measure(options):
    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(ROOT / "library/python"))
    import rmsnorm
    from peers_harness import machine

    count, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    gpus = torch.cuda.device_count()
    is_shared = gpus < count
    torch.cuda.set_device(rank % gpus)
    if "MASTER_ADDR" not in os.environ:  # not by torchrun: one rank
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1"}
    if is_shared:
        os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    dist.init_process_group("gloo" if is_shared else "cpu:gloo,cuda:nccl")
    rmsnorm.load(str(options.library))
    largest = max(options.rows) * max(options.hidden)
    ranks = rmsnorm.Ranks(bytes=2 * largest)
    symmetric, group = None, dist.group.WORLD.group_name
    if count > 1 and not is_shared:
        from torch.distributed import _symmetric_memory

        symmetric = _symmetric_memory.empty(largest, dtype=torch.bfloat16, device="cuda")
        _symmetric_memory.rendezvous(symmetric, group)
    common = {key: value for key, value in machine.describe().items() if key in FIELDS}
    common |= {"ranks": count, "gpus": min(gpus, count), "dtype": "bf16", "torch": torch.__version__,
               "revision": revision_for(options)}
    if is_shared and rank == 0:
        say(f"{count} ranks share {gpus} GPU: results are verified, and nothing is measured")
    rows_of_csv, is_right = [], True
    for hidden in options.hidden:
        for rows in options.rows:
            torch.manual_seed(rows)  # the same residual and weight on all ranks
            residual = torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16)
            weight = torch.randn(hidden, device="cuda", dtype=torch.bfloat16)
            parts = torch.randn(count, rows, hidden, device="cuda", dtype=torch.bfloat16)
            x, total = parts[rank].clone(), parts.float().sum(0)
            for name, call in implementations(ranks, symmetric, rmsnorm.binding, group).items():
                right = torch.tensor([verdict_of(call, x, residual, weight, total)], dtype=torch.int32)
                dist.all_reduce(right, dist.ReduceOp.MIN)
                row = {"implementation": name, "rows": rows, "hidden": hidden,
                       "bytes_of_rank": 2 * rows * hidden, "samples": 0,
                       "verdict": "pass" if right.item() else "fail", **common}
                is_right = is_right and bool(right.item())
                if right.item() and not is_shared:
                    times = times_of(call, (torch.zeros_like(x), residual, weight, torch.empty_like(x)), options)
                    quartiles = statistics.quantiles(times, n=4)
                    row |= {"median_us": round(quartiles[1], 3), "samples": len(times),
                            "spread_pct": round(100 * (quartiles[2] - quartiles[0]) / quartiles[1], 2)}
                rows_of_csv.append(row)
                if rank == 0:
                    say(f"{rows} x {hidden}  {name:20} {row['verdict']} {row.get('median_us', '')} us")
            if rank == 0 and options.csv:  # after each problem: what there is, is there
                with open(options.csv, "w", newline="") as file:
                    writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(rows_of_csv)
    ranks.status()
    ranks.close()
    dist.destroy_process_group()
    return DONE if is_right else FAILED


if __name__ == "__main__":
    sys.exit(run("ranks.py", measure, parse()))
