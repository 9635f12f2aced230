#!/usr/bin/env python3
"""Draws small CUDA programs, each with one mistake or none, and lets ./rmsnorm check --program say which.

    draw.py FOLDER [--seed N] [--count N] [--gpu]

Writes one file of each family into the folder, builds it, and runs each of its programs in four orders. Prints
a table: of the wrong ones, how many were reported, and of the right ones, how many were not. It ends with 1 if one
is taken for the other, and names it.

With --gpu, nvcc builds them. Of the wrong ones, compute-sanitizer's memcheck and racecheck say which they see; the
right ones run, and have to end with 0.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[4]
PROGRAM = TOP / "build/cpu/common/watched_program"

# A family: its kernel, with @NAME@ where a mistake leaves out or changes something: for each mistake, what
# stands there instead. Without a mistake, the first text stands there.
# kernel(x, y, flag): x[i] = i % 7 of @n@ ints, y and flag are zeros. Then the host demands @sum@ of y[0].
FAMILIES = {
    "tree": (
        """
  __shared__ int sums[@t@];
  const int t = threadIdx.x;
  sums[t] = x[t];
  for (int half = @t@ / 2; half > 0; half /= 2) {
    @round@
    if (t < half) {
      @inside@
      sums[t] += sums[t + half @off@];
    }
  }
  if (t == 0 && blockIdx.x == 0) y[0] = sums[0];
""",
        {
            "round": ["__syncthreads();", "if (half != @t@ / 4) __syncthreads();", "__syncwarp();"],
            "inside": ["", "__syncthreads();"],
            "off": ["", "+ (half == @t@ / 2 ? @t@ : 0)"],
        },
        lambda n, t, b: sum(i % 7 for i in range(t)),
        [64, 128, 256],
    ),
    "shuffles": (
        """
  __shared__ int of_warp[@t@ / 32];
  const int t = threadIdx.x;
  int sum = x[t];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(@mask@, sum, d);
  if (t % 32 == 0) of_warp[t / 32] = sum;
  @meet@
  if (t == 0) {
    int all = 0;
    for (int w = 0; w < @t@ / 32 @more@; ++w) all += of_warp[w];
    if (blockIdx.x == 0) y[0] = all;
  }
""",
        {
            "mask": ["0xffffffff", "0xffff"],
            "meet": ["__syncthreads();", "", "__syncwarp();"],
            "more": ["", "+ 1"],
        },
        lambda n, t, b: sum(i % 7 for i in range(t)),
        [64, 128, 256],
    ),
    "scan": (
        """
  __shared__ int row[@t@];
  const int t = threadIdx.x;
  row[t] = x[t];
  @first@
  for (int d = 1; d < @t@; d *= 2) {
    const int before = t >= d ? row[t - d] : 0;
    @read@
    row[t] += before;
    @written@
  }
  if (t == @t@ - 1 && blockIdx.x == 0) y[0] = row[t];
""",
        {
            "first": ["__syncthreads();", ""],
            "read": ["__syncthreads();", ""],
            "written": ["__syncthreads();", "if (d != 8) __syncthreads();"],
        },
        lambda n, t, b: sum(i % 7 for i in range(t)),
        [64, 128, 256],
    ),
    "histogram": (
        """
  __shared__ int own[7];
  if (threadIdx.x < 7) own[threadIdx.x] = 0;
  @zeroed@
  for (int i = blockIdx.x * @t@ + threadIdx.x; i < @n@ @past@; i += gridDim.x * @t@) {
    @count@
  }
  @counted@
  if (threadIdx.x < 7) @add@
""",
        {
            "zeroed": ["__syncthreads();", ""],
            "count": ["atomicAdd(&own[x[i]], 1);", "++own[x[i]];"],
            "counted": ["__syncthreads();", ""],
            "add": [
                "atomicAdd(&y[threadIdx.x], own[threadIdx.x]);",
                "y[threadIdx.x] += own[threadIdx.x];",
                "atomicAdd_block(&y[threadIdx.x], own[threadIdx.x]);",
            ],
            "past": ["", "+ 1"],
        },
        lambda n, t, b: (n + 6) // 7,
        [32, 64, 128],
    ),
    "flag": (
        """
  volatile int* const raised = flag;
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    y[1] = x[5];
    @fence@
    @raise@
  } else {
    while (*raised == 0) {
    }
    @behind@
    y[0] = y[1];
  }
""",
        {
            "fence": ["__threadfence();", "", "__threadfence_block();"],
            "behind": ["__threadfence();", "", "__threadfence_block();"],
            "raise": ["*raised = 1;", "flag[1] = 1;", "*raised = 0;"],
        },
        lambda n, t, b: 5,
        [32, 64],
    ),
    "volatile": (  # no race: the value is the old one
        """
  volatile int* const raised = flag;
  volatile int* const value = y + 1;
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    *value = x[5];
    @fence@
    *raised = 1;
  } else {
    while (*raised == 0) {
    }
    @behind@
    y[0] = *value;
  }
""",
        {
            "fence": ["__threadfence();", "", "__threadfence_block();"],
            "behind": ["__threadfence();", "", "__threadfence_block();"],
        },
        lambda n, t, b: 5,
        [32, 64],
    ),
    "atomic_ref": (
        """
  const cuda::atomic_ref<int, cuda::@scope@> raised(*flag);
  if (threadIdx.x != 0 || blockIdx.x > 1) return;
  if (blockIdx.x == 0) {
    y[1] = x[5];
    raised.store(1, cuda::memory_order_@release@);
  } else {
    while (raised.load(cuda::memory_order_@acquire@) == 0) {
    }
    y[0] = y[1];
  }
""",
        {
            "scope": ["thread_scope_device", "thread_scope_block"],
            "release": ["release", "relaxed"],
            "acquire": ["acquire", "relaxed"],
        },
        lambda n, t, b: 5,
        [32, 64],
    ),
    "meeting": (  # of all blocks
        """
  if (threadIdx.x == 0) y[1 + blockIdx.x] = x[blockIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    @fence@
    atomicAdd(flag, 1);
    while (atomicAdd(flag, 0) < @all@) {
    }
    __threadfence();
  }
  @meet@
  if (threadIdx.x == @who@ && blockIdx.x == 0) {
    for (int i = 0; i < gridDim.x; ++i) y[0] += y[1 + i];
  }
""",
        {
            "fence": ["__threadfence();", "", "__threadfence_block();"],
            "all": ["gridDim.x", "1"],
            "meet": ["__syncthreads();", "", "__syncwarp();"],
        },
        lambda n, t, b: sum(i % 7 for i in range(b)),
        [64, 128],
    ),
    "last_block": (
        """
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    y[1 + blockIdx.x] = x[blockIdx.x];
    @fence@
    is_last = atomicAdd(flag, 1) == gridDim.x - 1;
  }
  @meet@
  if (!is_last) return;
  __threadfence();
  if (threadIdx.x == @who@) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += y[1 + i @off@];
    y[0] = sum;
  }
""",
        {
            "fence": ["__threadfence();", "", "__threadfence_block();"],
            "meet": ["__syncthreads();", "", "__syncwarp();"],
            "off": ["", "+ (1 << 20)"],
        },
        lambda n, t, b: sum(i % 7 for i in range(b)),
        [64, 128],
    ),
    "lock": (
        """
  if (threadIdx.x % 32 != 0) return;
  @take@
  @behind@
  y[0] = y[0] + 1;
  @fence@
  @give@
""",
        {
            "take": ["while (atomicCAS(flag, 0, 1) != 0) {\n  }", ""],
            "behind": ["__threadfence();", "", "__threadfence_block();"],
            "fence": ["__threadfence();", "", "__threadfence_block();"],
            "give": ["atomicExch(flag, 0);", "", "atomicExch(flag + 1, 0);"],
        },
        lambda n, t, b: b * (t // 32),
        [32, 64],
    ),
    "stencil": (
        """
  const int i = blockIdx.x * @t@ + threadIdx.x;
  if (i >= @n@) return;
  const int left = @left@;
  const int right = @right@;
  @to@ = left + x[i] + right;
  if (i == 1) y[0] = left + x[1] + right;
""",
        {
            "left": ["i > 0 ? x[i - 1] : 0", "x[i - 1]"],
            "right": ["i < @n@ - 1 ? x[i + 1] : 0", "x[i + 1]"],
            "to": ["y[1 + i]", "const_cast<int*>(x)[i]", "y[1 + i / 2]"],
        },
        lambda n, t, b: 3,
        [32, 64, 128],
    ),
    "transpose": (
        """
  __shared__ int tile[16][17];
  const int col = threadIdx.x % 16;
  for (int row = threadIdx.x / 16; row < 16; row += @t@ / 16) tile[row][col] = x[row * 16 + col];
  @meet@
  for (int row = threadIdx.x / 16; row < 16 @more@; row += @t@ / 16) {
    if (blockIdx.x == 0) y[@index@] = tile[col][row];
  }
""",
        {
            "meet": ["__syncthreads();", "", "__syncwarp();"],
            "more": ["", "+ @t@ / 16"],
            "index": ["row * 16 + col", "row * 16 + col / 2"],
        },
        lambda n, t, b: 0,
        [64, 128, 256],
    ),
}


def program(number, family, rng):
    """The kernel of one program, its launch, what it says of itself, and whether it is wrong."""
    body, places, sum_of, threads = FAMILIES[family]
    t, b = rng.choice(threads), rng.randint(2, 4)
    n = b * t - rng.randint(0, t // 2) if family in ("histogram", "stencil") else 512
    mistakes = [(place, i) for place, texts in places.items() for i in range(1, len(texts))]
    mistake = rng.choice(mistakes) if rng.random() < 0.6 else None
    for place, texts in places.items():
        chosen = texts[mistake[1]] if mistake and mistake[0] == place else texts[0]
        body = body.replace(f"@{place}@", chosen)
    body = body.replace("@who@", str(t // 2)).replace("@t@", str(t)).replace("@n@", str(n))
    kernel = f"__global__ void kernel_{number}(const int* x, int* y, int* flag) {{{body}}}\n"
    case = f"    case {number}: return run(kernel_{number}, {b}, {t}, {n}, {sum_of(n, t, b)});\n"
    return kernel, case, mistake


MAIN = """
#include <cuda/atomic>
#include <vector>

@kernels@
using Kernel = void (*)(const int*, int*, int*);

int run(Kernel kernel, int blocks, int threads, int n, int sum) {
  std::vector<int> numbers(n);
  for (int i = 0; i < n; ++i) numbers[i] = i % 7;
  int *x = nullptr, *y = nullptr, *flag = nullptr;
  cudaMalloc(&x, n * sizeof(int));
  cudaMalloc(&y, (n + 1) * sizeof(int));
  cudaMalloc(&flag, 2 * sizeof(int));
  cudaMemcpy(x, numbers.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(y, 0, (n + 1) * sizeof(int));
  cudaMemset(flag, 0, 2 * sizeof(int));
  kernel<<<blocks, threads>>>(x, y, flag);
  int result = -1;
  cudaMemcpy(&result, y, sizeof(int), cudaMemcpyDeviceToHost);
  return result == sum ? 0 : 3;
}

int main(int, char** arguments) {
  switch (atoi(arguments[1])) {
@cases@  }
  return 4;
}
"""


def verdict(number, folder):
    """Whether a mistake is reported in one of the orders, or a wrong result."""
    report = folder / "report"
    for order in range(4):
        report.unlink(missing_ok=True)
        environment = dict(
            os.environ, CPU_DEVICE_ORDER=str(order), CPU_DEVICE_STEPS="200000000", CPU_DEVICE_REPORT=str(report))
        ran = subprocess.run([PROGRAM, str(number)], env=environment, capture_output=True, text=True)
        said = report.read_text() if report.exists() else ran.stdout
        said = re.sub(r"^(note|old) .*\n", "", said, flags=re.MULTILINE)
        if said != "exit 0\n":
            return re.sub(r"\nexit \d+\n$", "", said).strip()
    return ""


def verdict_of_gpu(number, program, mistake):
    """What a right program says if it does not end with 0, and of a wrong one which tool sees it."""
    if mistake is None:
        ran = subprocess.run([program, str(number)], capture_output=True, text=True, timeout=15)
        return "" if ran.returncode == 0 else f"exit {ran.returncode}"
    seen = []
    for tool in ("memcheck", "racecheck"):
        try:
            ran = subprocess.run(
                ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", program, str(number)],
                capture_output=True, text=True, timeout=15)
            if ran.returncode == 99:
                seen.append(tool)
        except subprocess.TimeoutExpired:  # a flag that nobody raises
            pass
    return " ".join(seen)


def build(file, gpu):
    """The program, with all of a file's kernels."""
    if gpu:
        program = file.with_suffix("")
        subprocess.run(["nvcc", "-arch=native", "-std=c++17", "-o", program, file], check=True)
        return program
    built = subprocess.run(
        [TOP / "rmsnorm", "check", "--program", file, "--orders", "1", "--", "-1"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if built.returncode != 1:  # which is what main() leads to here
        sys.exit(f"{file}: {built.stdout}{built.stderr}")
    return PROGRAM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    bad = 0
    print(f"{'family':12} {'wrong':>6} {'reported':>9} {'right':>6} {'reported':>9}")
    for place, family in enumerate(FAMILIES):
        numbers = range(place, options.count, len(FAMILIES))
        drawn = {number: program(number, family, rng) for number in numbers}
        text = MAIN.replace("@kernels@", "".join(kernel for kernel, _, _ in drawn.values()))
        text = text.replace("@cases@", "".join(case for _, case, _ in drawn.values()))
        file = options.folder / f"{family}.cu"
        file.write_text("#include <cstdlib>\n" + text)
        built = build(file, options.gpu)
        if options.gpu:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                says = list(pool.map(lambda n: verdict_of_gpu(n, built, drawn[n][2]), drawn))
        else:
            says = [verdict(number, options.folder) for number in drawn]
        counts = {True: [0, 0], False: [0, 0]}
        for (number, (_, _, mistake)), said in zip(drawn.items(), says):
            is_wrong = mistake is not None
            counts[is_wrong][0] += 1
            counts[is_wrong][1] += said != ""
            if (said != "") != is_wrong and not (options.gpu and is_wrong):
                bad += 1
                print(f"{file.name} {number}: {mistake}, and said was: {said or 'nothing'}", file=sys.stderr)
        wrong, right = counts[True], counts[False]
        print(f"{family:12} {wrong[0]:6} {wrong[1]:9} {right[0]:6} {right[1]:9}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
