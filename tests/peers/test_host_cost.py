"""plots/host_cost.py: what needs no PyTorch. Run by CTest."""

import contextlib
import ctypes
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots"))
import host_cost  # noqa: E402
from peers_harness import empty_kernel, results  # noqa: E402

# Stands in for CUDA's runtime: its second library is refused. seen() is what the latest launch was.
CUDART = """
#include <stddef.h>
#include <string.h>
typedef struct { int id; char pad[4]; union { char pad[64]; int allowed; } value; } attribute;
typedef struct {
  struct { unsigned x, y, z; } grid, block;
  size_t shared_bytes;
  void* stream;
  attribute* attributes;
  unsigned attribute_count;
} config;
static int libraries, launches;
static long seen_of[5];
int cudaLibraryLoadData(
    const void** library, const char* ptx, void* a, void* b, unsigned c, void* d, void* e,
    unsigned f) {
  *library = ptx;
  return strstr(ptx, ".entry nothing(") == NULL || a || b || c || d || e || f || ++libraries == 2;
}
int cudaLibraryGetKernel(const void** kernel, const void* library, const char* name) {
  *kernel = library;
  return library == NULL || strcmp(name, "nothing");
}
int cudaLaunchKernelExC(const config* c, const void* kernel, void** arguments) {
  const long seen[] = {++launches, c->grid.x * c->grid.y * c->grid.z,
                       c->block.x * c->block.y * c->block.z, (long)c->stream,
                       c->attribute_count ? 10 * c->attributes->id + c->attributes->value.allowed
                                          : 0};
  memcpy(seen_of, seen, sizeof seen);
  return kernel == NULL || *(char*)arguments[0] != 0 || c->shared_bytes != 0;
}
long seen(int i) { return seen_of[i]; }
"""

COMMON = {"device": "a GPU", "driver": "1.2", "cuda": "13.0", "date": "2026-01-01"}


def timings(**microseconds):
    names = dict(zip("torch new out c empty".split(), [
        host_cost.TORCH, host_cost.NEW, host_cost.OUT, host_cost.IN_C, host_cost.EMPTY]))
    return {names[name]: results.Timing(us, 1.0, 33) for name, us in microseconds.items()}


class Batches(unittest.TestCase):
    def test_a_batch_is_timed_without_what_comes_after_it(self):
        log = []
        batches = host_cost.Batches(
            host_cost.repeated(lambda: log.append("call")), lambda: log.append("settle"))
        times = batches.time(2)()
        one = ["call"] * host_cost.CALLS + ["settle"]
        self.assertEqual(log, one + one)
        self.assertEqual(len(times), 2)
        self.assertGreater(min(times), 0)

    def test_the_loop_in_c_calls_as_often_as_it_is_told_and_keeps_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            loops = host_cost.loops_in_c(folder)
        if loops is None:
            self.skipTest("there is no C compiler")
        seen = []
        pointer, real = ctypes.c_void_p, ctypes.c_float
        kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, real, real, pointer)
        forward = kind(lambda *arguments: seen.append(arguments) or int(len(seen) == 2))
        self.assertEqual(loops.call_forward(forward, *map(pointer, (1, 2, 3, 4)), 3), 1)
        self.assertEqual([(x, w, y, stream) for x, w, y, _, _, stream in seen], [(1, 2, 3, 4)] * 3)


class EmptyKernel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.loops = host_cost.loops_in_c(folder.name)
        if self.loops is None:
            self.skipTest("there is no C compiler")
        source, self.cudart = Path(folder.name, "cudart.c"), str(Path(folder.name, "cudart.so"))
        source.write_text(CUDART)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.cudart, source], check=True)

    def batches(self, cudart):
        names = [host_cost.EMPTY, host_cost.EMPTY_ALONE]
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            batches = host_cost.empty_kernels(self.loops, cudart, ctypes.c_void_p(7), names)
        return batches, said.getvalue()

    def test_it_is_launched_with_and_without_the_librarys_attribute(self):
        batches, said = self.batches(self.cudart)
        self.assertEqual((list(batches), said), ([host_cost.EMPTY, host_cost.EMPTY_ALONE], ""))
        stub = ctypes.CDLL(self.cudart)
        seen = lambda: [stub.seen(i) for i in range(5)]  # noqa: E731
        for name, attribute in ((host_cost.EMPTY, 61), (host_cost.EMPTY_ALONE, 0)):
            before = seen()[0]
            batches[name]()
            self.assertEqual(
                seen(), [before + host_cost.CALLS, 1, empty_kernel.THREADS, 7, attribute])
        batches, said = self.batches(self.cudart)
        self.assertEqual(batches, {})
        self.assertIn("left out: cudaLibraryLoadData() gave the CUDA error 1", said)

    def test_it_is_left_out_where_cudas_runtime_is_not_found(self):
        batches, said = self.batches("/no/such.so")
        self.assertEqual(batches, {})
        self.assertIn("left out: /no/such.so", said)


class Results(unittest.TestCase):
    def test_each_call_is_compared_with_pytorch(self):
        lines = host_cost.table(timings(torch=8.0, new=6.0))
        self.assertIn("8.00 us", lines[0])
        self.assertIn("0.75 of F.rms_norm(x)", lines[1])

    def test_the_programs_of_plots_read_them(self):
        program = os.environ.get("RMSNORM_UPDATE_TABLES")
        if not program:
            self.skipTest("RMSNORM_UPDATE_TABLES does not name the program")
        for measured in (timings(torch=8.0, new=6.0, out=4.0, c=1.5),
                         timings(torch=8.0, new=6.0, out=4.0, c=1.5, empty=1.2)):
            text = self.page_of(program, measured)
            self.assertIn("| `rmsnorm.rms_norm(x out=y)` | 4.00 | 0.50 |", text)
            self.assertIn("4 × 256, bf16.", text)
            has_empty = host_cost.EMPTY in measured
            self.assertEqual("| `empty kernel in C` | 1.20 | 0.15 |" in text, has_empty)
            share = "It takes 80 % of the time of `rmsnorm_forward() in C`."
            self.assertEqual(share in text, has_empty)

    def page_of(self, program, measured):
        rows = host_cost.rows_of(measured, {name: "9.9" for name in measured}, COMMON)
        with tempfile.TemporaryDirectory() as folder:
            recorded, page = Path(folder, "a-gpu.csv"), Path(folder, "README.md")
            shutil.copy(ROOT / "plots/data/nvidia-h200.csv", recorded)
            results.write_csv(Path(folder, "a-gpu-host.csv"), rows)
            page.write_text("<!-- results:begin host -->\n<!-- results:end -->\n")
            subprocess.run(
                [program, "--csv", recorded, "--data", folder, "--root", folder], check=True,
                capture_output=True)
            return page.read_text()


if __name__ == "__main__":
    unittest.main()
