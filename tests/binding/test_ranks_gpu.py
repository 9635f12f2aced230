"""Sums over ranks on GPUs: processes that share memory, CUDA graphs, streams, a rank that dies.

    tests/binding/test_ranks_gpu.py LIBRARY [--ranks 2] [--memory symmetric | ipc]

Each rank has a GPU or, where there are fewer, some share one: then it shows that results are right,
and no speed. By default, on enough GPUs memory is PyTorch's symmetric memory, and otherwise opened
through CUDA's handles for processes. Skipped (exit code 4) where PyTorch or a GPU is missing.
"""

import argparse
import hashlib
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(4)
import torch.distributed as dist
from torch.multiprocessing.reductions import reduce_tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "library/python"))
import rmsnorm  # noqa: E402
from rmsnorm import binding  # noqa: E402

EPS = 1e-6
HEADER = 16384
DIES = 9  # the exit code of a rank that dies


def new_ranks(options, group=None, bytes=1 << 20, limit=30.0):
    if options.memory == "symmetric":
        return rmsnorm.Ranks(group, bytes=bytes, limit=limit)
    own = torch.empty(HEADER + 2 * bytes, dtype=torch.uint8, device="cuda")
    rank, handles = dist.get_rank(group), [None] * dist.get_world_size(group)
    dist.all_gather_object(handles, reduce_tensor(own), group)
    buffers = [own if i == rank else make(*arguments)
               for i, (make, arguments) in enumerate(handles)]
    return rmsnorm.Ranks(group, limit=limit, buffers=buffers)


def part(rank, call, rows, hidden, dtype):
    """What each process knows of a rank's x."""
    generator = torch.Generator().manual_seed(1000 * call + rank)
    return torch.randn(rows, hidden, generator=generator).to(dtype).cuda()


def check(y, residual, before, parts, weight, weight_bias=0.0):
    """The residual is right to the bit, y as far as its type has digits, both alike on all ranks."""
    total = torch.zeros_like(parts[0], dtype=torch.float32)
    for one in parts:
        total += one.float()
    value = total.to(before.dtype).float() + before.float()
    assert torch.equal(residual, value.to(before.dtype)), "the residual"
    expected = value * (value.square().mean(-1, keepdim=True) + EPS).rsqrt() * (weight.float() + weight_bias)
    digit = torch.finfo(y.dtype).eps  # and what fp32 may lose on the way
    torch.testing.assert_close(y.float(), expected, rtol=digit + 1e-5, atol=1e-5)
    check_alike(y)


def check_alike(y):
    digests = [None] * dist.get_world_size()
    bits = y.contiguous().view(torch.uint8).cpu().numpy().tobytes()
    dist.all_gather_object(digests, hashlib.sha256(bits).hexdigest())
    assert len(set(digests)) == 1, "ranks have other bits"


def run_shapes(rank, options):
    ranks, call = new_ranks(options), 0
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for rows, hidden in [(1, 4096), (3, 72), (5, 5001), (7, 8192), (130, 320), (1, 16384), (64, 4096)]:
            if rows * hidden * 4 > 1 << 20 and dtype == torch.float32:
                continue
            for protocol in (binding.ONE_SHOT, binding.TWO_SHOT):
                call += 1
                parts = [part(r, call, rows, hidden, dtype) for r in range(options.ranks)]
                weight = part(99, call, 1, hidden, dtype)[0]
                before = part(98, call, rows, hidden, dtype)
                residual = before.clone()
                y = binding.all_reduce_residual_add(
                    parts[rank], residual, weight, EPS, ranks.address.value, None, protocol, 1.0)
                check(y, residual, before, parts, weight, 1.0)
    ranks.status()
    x = part(rank, 1, 600, 4096, torch.bfloat16)  # for torch.distributed
    before = part(98, 1, 600, 4096, torch.bfloat16)
    residual = before.clone()
    y = rmsnorm.all_reduce_residual_add(x, residual, None, EPS, ranks)
    check_alike(y)
    total = sum(part(r, 1, 600, 4096, torch.float32) for r in range(options.ranks)) + before
    torch.testing.assert_close(residual.float(), total, rtol=2**-5, atol=2**-5)
    torch.library.opcheck(
        torch.ops.rmsnorm.all_reduce_residual_add,
        (part(rank, 2, 4, 64, torch.bfloat16), part(98, 2, 4, 64, torch.bfloat16), None, EPS, 0.0,
         ranks.name, True), test_utils=("test_schema", "test_faketensor"))


def run_graph(rank, options):
    """1000 sums in a graph, which is replayed: the residual is that of as many one by one."""
    ranks, calls, rows, hidden = new_ranks(options), 1000, 4, 4096
    parts = [part(r, 0, rows, hidden, torch.float32) / 1024 for r in range(options.ranks)]
    weight, residual = torch.ones(hidden, device="cuda"), part(98, 0, rows, hidden, torch.float32)
    expected = residual.clone()
    rmsnorm.all_reduce_residual_add(parts[rank], residual, weight, EPS, ranks)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            y = rmsnorm.all_reduce_residual_add(parts[rank], residual, weight, EPS, ranks)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    ranks.status()
    total = torch.zeros_like(expected)
    for one in parts:
        total += one
    for _ in range(2 * calls + 1):
        before = expected.clone()
        expected += total
    assert torch.equal(residual, expected), "the residual"
    check(y, residual, before, parts, weight)


def run_groups(rank, options):
    """Subgroups, two groups on two streams, and one group on two streams."""
    alone = [dist.new_group([r]) for r in range(options.ranks)]
    x, residual = part(rank, 0, 3, 64, torch.float32), part(98, 0, 3, 64, torch.float32)
    for r, group in enumerate(alone):
        if r == rank:
            before = residual.clone()
            rmsnorm.all_reduce_residual_add(x, residual, None, EPS, new_ranks(options, group))
            assert torch.equal(residual, x + before)
        else:
            try:
                rmsnorm.Ranks(group)
                raise AssertionError("Ranks of a group that this process is not in")
            except ValueError as error:
                assert "this process is not in the group" in str(error)
    groups = new_ranks(options), new_ranks(options)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    parts = [part(r, 0, 3, 64, torch.float32) for r in range(options.ranks)]
    weight = torch.ones(64, device="cuda")
    for pair in (groups, (groups[0], groups[0])):
        before = part(98, 0, 3, 64, torch.float32)
        residuals = before.clone(), before.clone()
        torch.cuda.synchronize()
        for _ in range(20):
            for ranks, stream, one in zip(pair, streams, residuals):
                with torch.cuda.stream(stream):
                    one.copy_(before)
                    y = rmsnorm.all_reduce_residual_add(parts[rank], one, weight, EPS, ranks)
        torch.cuda.synchronize()
        for one in residuals:
            check(y, one, before, parts, weight)


def failed(ranks, limit):
    """Whether a sum ends in the sentence and NaN, within the limit."""
    x = torch.ones(3, 64, device="cuda")
    started = time.monotonic()
    y = rmsnorm.all_reduce_residual_add(x, x.clone(), None, EPS, ranks)
    torch.cuda.synchronize()
    assert time.monotonic() - started < limit + 5
    assert y.isnan().all()
    try:
        ranks.status()
    except rmsnorm.Failure as error:
        return str(error)
    raise AssertionError("no sentence")


def run_late(rank, options):
    """The last rank comes too late; after a reset, all is well."""
    last = options.ranks - 1
    ranks = new_ranks(options, limit=3.0)
    for call in range(3):
        if rank == last:
            time.sleep(8)
            x = torch.ones(3, 64, device="cuda")
            rmsnorm.all_reduce_residual_add(x, x.clone(), None, EPS, ranks)  # others have been there
            assert f"of rank {last}" in failed(ranks, 3.0)  # they do not come again
        else:
            assert f"rank {last} did not come to call 0 within 3 s of rank {rank}" in failed(ranks, 3.0)
            try:
                rmsnorm.all_reduce_residual_add(
                    torch.ones(3, 64, device="cuda"), torch.ones(3, 64, device="cuda"), None, EPS, ranks)
                raise AssertionError("a sum of ranks of which one has failed")
            except rmsnorm.Failure:
                pass
        ranks.reset()
        ranks.status()
    x = torch.ones(3, 64, device="cuda")
    residual = x.clone()
    rmsnorm.all_reduce_residual_add(x, residual, None, EPS, ranks)
    assert (residual == 1 + options.ranks).all()


def run_death(rank, options):
    """The last rank dies in the middle: the others end with the sentence."""
    last = options.ranks - 1
    ranks = new_ranks(options, limit=3.0)
    x, residual = torch.ones(3, 64, device="cuda"), torch.ones(3, 64, device="cuda")
    for _ in range(50):
        rmsnorm.all_reduce_residual_add(x, residual, None, EPS, ranks)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == last:
        os._exit(DIES)
    assert f"rank {last} did not come to call 50 within 3 s" in failed(ranks, 3.0)
    print(f"rank {rank} goes on without rank {last}", flush=True)
    os._exit(0)  # the process group has lost a rank: it could not be ended in an orderly way


def process(rank, scenario, options, store):
    gpus = torch.cuda.device_count()
    torch.cuda.set_device(rank % gpus)
    rmsnorm.load(options.library)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpus >= options.ranks else "gloo", init_method=f"file://{store}",
        rank=rank, world_size=options.ranks)
    globals()[f"run_{scenario}"](rank, options)
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


class OfRanks(unittest.TestCase):
    def run_all(self, scenario, *codes):
        """Runs it on all ranks, which end with these codes, or with 0."""
        context = torch.multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as folder:
            processes = [
                context.Process(target=process, args=(rank, scenario, OPTIONS, f"{folder}/store"))
                for rank in range(OPTIONS.ranks)]
            for one in processes:
                one.start()
            for one in processes:
                one.join(timeout=300)
            hung = [one for one in processes if one.is_alive()]
            for one in hung:
                one.kill()
        self.assertEqual(hung, [])
        self.assertEqual([one.exitcode for one in processes], list(codes) or [0] * OPTIONS.ranks)

    def test_every_shape_type_and_protocol_has_the_bits_of_the_sum_in_order(self):
        self.run_all("shapes")

    def test_a_thousand_sums_in_a_graph_are_right(self):
        self.run_all("graph")

    def test_groups_streams_and_subgroups_work_or_are_refused(self):
        self.run_all("groups")

    def test_a_rank_that_is_late_is_named_and_may_come_again_after_a_reset(self):
        self.run_all("late")

    def test_a_rank_that_dies_leaves_nothing_locked(self):
        self.run_all("death", *[0] * (OPTIONS.ranks - 1), DIES)
        self.run_all("groups")  # the next run works


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--memory", choices=("symmetric", "ipc"))
    OPTIONS, others = parser.parse_known_args()
    if not torch.cuda.is_available():
        print("skipped: there is no GPU")
        sys.exit(4)
    shared = torch.cuda.device_count() < OPTIONS.ranks
    OPTIONS.memory = OPTIONS.memory or ("ipc" if shared else "symmetric")
    if shared:
        os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
