"""Reads in SASS how much of x a thread asks for before it waits, and writes a CSV.

That of each kernel of RMSNorm that the profiler counted (profile.sh). Needs cuobjdump, of the CUDA
Toolkit, and c++filt; no GPU. From Volta on, an instruction says itself what it waits for: there are
six barriers, a load names the one that it opens, and who needs its value names those that it waits
for (Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018). What
stands in front of a wait has been asked for together.
"""

import argparse
import csv
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
TYPES = {"fp32": "float", "bf16": "__nv_bfloat16", "fp16": "__half"}
FIELDS = ["implementation", "regime", "dtype", "kernel", "threads", "registers", "spilled_bytes",
          "x_bytes_at_once", "waits"]
# Variants with kernels of their own, which are not looked for.
OWN_KERNELS = {
    "11_unaligned_rows/early", "11_unaligned_rows/elements", "11_unaligned_rows/plain",
    "12_launch_overlap/apart", "12_launch_overlap/first", "12_launch_overlap/last",
    "12_launch_overlap/middle"}
BARRIERS = 6
NO_BARRIER = 7
ARCHITECTURE = "sm_90"
FIRST_PARAMETER = 0x210  # of its kernels, in their constants: x, or what holds it


class Instruction(NamedTuple):
    address: int
    predicate: str
    op: str
    rest: str
    opens: int  # the barrier that is open until it is done, or NO_BARRIER
    waits: int  # a bit for each barrier


class Kernel(NamedTuple):
    name: str
    arguments: tuple  # of the template
    registers: int
    spilled: int
    code: list


def instructions(sass):
    """Those in a function's lines. What they wait for is in the upper half of their 16 bytes."""
    pattern = (r"/\*([0-9a-f]{4,})\*/ +(@!?U?P\w+ +)?(\S+)([^;]*?) *; +/\* 0x\w{16} \*/"
               r"\s+/\* 0x(\w{16}) \*/")
    for address, predicate, op, rest, upper in re.findall(pattern, sass):
        control = int(upper, 16) >> 41
        yield Instruction(int(address, 16), predicate, op, rest, control >> 5 & 7,
                          control >> 11 & 63)


def kernels_of(program):
    """The kernels of a program or a cubin."""
    def say(*words):
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    dump = ("cuobjdump", "-arch", ARCHITECTURE, program)
    parts = re.split(r"\n\s*Function : (\S+)\n", say(*dump, "-sass"))
    usage = re.findall(r"Function (\S+?):\n\s*REG:(\d+) STACK:(\d+)", say(*dump, "-res-usage"))
    used = {name: (int(registers), int(stack)) for name, registers, stack in usage}
    names = say("c++filt", *parts[1::2]).splitlines() if len(parts) > 1 else []
    for name, mangled, sass in zip(names, parts[1::2], parts[2::2]):
        found = re.search(r"(rms_norm_\w+)(?:<([^(]*)>)?\(", name)
        if found:
            yield Kernel(found[1], tuple(found[2].split(", ")) if found[2] else (),
                         *used[mangled], list(instructions(sass)))


def addresses_with_x(code):
    """The loads whose address is made of the first parameter, x.

    Registers are followed line by line: in the code of this repository, one way through it does not
    find another parameter in a register than another way."""
    found, with_x = set(), set()
    for instruction in code:
        registers = re.findall(r"\bU?R\d+\b", instruction.rest)
        if instruction.op.startswith("LDG"):
            if re.search(r"\[(R\d+)[^]]*\]$", instruction.rest)[1] in with_x:
                found.add(instruction.address)
            with_x.discard(registers[0])
        elif registers and not instruction.op.startswith("ST"):
            is_x = (f"c[0x0][{FIRST_PARAMETER:#x}]" in instruction.rest or
                    any(register in with_x for register in registers[1:]))
            kind, number = re.match(r"(U?R)(\d+)", registers[0]).groups()
            pair = "WIDE" in instruction.op or ".64" in instruction.op
            for half in range(2 if pair else 1):
                register = f"{kind}{int(number) + half}"
                (with_x.add if is_x else with_x.discard)(register)
    return found


class State(NamedTuple):
    """A thread on one way through the code."""

    x: tuple = (0,) * BARRIERS  # bytes of x in flight, for each barrier
    others: tuple = (0,) * BARRIERS  # bytes of others
    waits: int = 0  # until here

    def rank(self):
        """Where two ways meet, the one with more in flight goes on: the one for aligned rows, since
        on the others a thread waits in between. A loop is gone through rather than passed by."""
        return sum(self.x), sum(self.others), self.waits


def width_of(load):
    widths = {"128": 16, "64": 8, "U16": 2}
    return next((widths[part] for part in load.split(".") if part in widths), 4)


def in_flight(code):
    """What a thread has of x in flight, in bytes, for each place where it waits; and how often it
    waits for global memory, on the way with the most in flight and once round each loop."""
    with_x = addresses_with_x(code)
    widest = max((width_of(i.op) for i in code if i.op.startswith("LDG")), default=0)
    arriving, runs, waits = {code[0].address: State()}, set(), 0
    for place, now in enumerate(code):
        state = arriving.pop(now.address, None)
        if state is None:
            continue
        if any(now.waits >> b & 1 and state.x[b] + state.others[b] for b in range(BARRIERS)):
            runs.add(sum(state.x))
            # What was asked for before is there about as soon, and is not waited for again.
            state = State(waits=state.waits + 1)
        if now.op.startswith("LDG"):
            width = width_of(now.op)
            # Loads of less than a vector are the ends of unaligned rows.
            kind = "x" if now.address in with_x and width == widest else "others"
            flying = list(getattr(state, kind))
            flying[now.opens] += width
            state = state._replace(**{kind: tuple(flying)})
        waits = max(waits, state.waits)
        jump = re.search(r"(0x\w+)$", now.rest) if now.op.startswith("BRA") else None
        always = not now.predicate and (now.op == "EXIT" or jump and "P" not in now.rest)
        targets = [int(jump[1], 16)] if jump else []
        if not always and place + 1 < len(code):
            targets.append(code[place + 1].address)
        for target in targets:
            other = arriving.get(target)
            if target > now.address and (other is None or state.rank() > other.rank()):
                arriving[target] = state
    return sorted(runs - {0}), waits


def has_loop(code):
    """Whether it jumps back. Behind its end, every kernel has a jump to itself."""
    jumps = ((i.address, re.search(r"(0x\w+)$", i.rest)) for i in code if i.op.startswith("BRA"))
    return any(to and int(to[1], 16) < address for address, to in jumps)


def chosen(kernels, implementation, dtype, vectors):
    """The kernel that an implementation starts for rows of so many vectors, and the threads that
    share a row. The launchers decide that; the profiler's count of registers confirms it.

    A kernel of most lessons is for a shape, threads of a row times vectors of a thread, and they
    take the first with room for the row."""
    lesson, _, variant = implementation.partition("/")
    if implementation in OWN_KERNELS:
        raise LookupError(f"{implementation}: it has kernels of its own")
    of_policies = lesson == "09_cache_policy" and variant
    name = "policies" if of_policies else lesson[3:]
    types = (TYPES[dtype],) * 2
    if implementation == "librmsnorm":
        each = 8 if vectors > 8192 else 4 if vectors > 512 else 2
        lanes = vectors // each if vectors <= 64 else 0
        is_long = vectors > 2048
        name = "cluster" if is_long else "aligned"
        key = ("true", "true", str(each)) if is_long else (str(each), str(lanes), "true")
        key, threads = types + key, vectors // each
    elif lesson == "06_float4":
        key = {"": ("256", "4"), "512": ("512", "4"), "512_by_1": ("512", "1"),
               "512_by_2": ("512", "2")}[variant]
        threads = int(key[0])
    elif lesson == "15_clusters" and vectors > 4096:
        key = {"": types, "registers": (types[0], "false", "true"),
               "cluster_sync": (types[0], "true", "false")}[variant]
        name = "clusters_variant" if variant else "clusters"
        threads = math.ceil(vectors / 4 / 32) * 32  # of all blocks
    else:
        key, threads = (), 256
        name = "one_block" if lesson == "15_clusters" else name
    mine = {kernel.arguments: kernel for kernel in kernels if kernel.name == "rms_norm_" + name}
    if key not in mine:
        shapes = []
        for key in mine:
            numbers = [int(argument) for argument in key if argument.isdigit()]
            if "true" not in key and (key[0].isdigit() or key[:2] == types):
                threads, each = [512, *numbers] if of_policies else [*numbers, 2][:2]
                shapes.append((threads * each, threads, key))
        if not shapes:
            raise LookupError(f"there is no kernel rms_norm_{name} of {implementation}")
        _, threads, key = min([s for s in shapes if s[0] >= vectors] or [max(shapes)])
    return mine[key], threads


def row_of(kernels, profile):
    """The row of the CSV for one of the profiler's."""
    implementation, dtype = profile["implementation"], profile["dtype"]
    bytes_of_row = int(profile["hidden"]) * BYTES[dtype]
    kernel, threads = chosen(kernels, implementation, dtype, bytes_of_row // 16)
    if kernel.registers != int(profile["registers"]):
        raise ValueError(f"{implementation} in {profile['regime']}, {dtype}: {kernel.name}"
                         f"<{', '.join(kernel.arguments)}> has {kernel.registers} registers here, "
                         f"and {profile['registers']} where it was counted")
    runs, waits = in_flight(kernel.code)
    if not runs and not any(i.op.startswith("UBLKCP") for i in kernel.code):  # a bulk copy
        raise ValueError(f"{kernel.name} loads no x: is it for {ARCHITECTURE}?")
    share = max(1, bytes_of_row // threads)  # of a thread
    # A thread with fewer passes does not go into an unrolled loop. One that could ask for more than
    # it has, asks for what it has; so does a bulk copy.
    at_once = max((run for run in runs if run <= share), default=share)
    return dict(zip(FIELDS, (
        implementation, profile["regime"], dtype, kernel.name.removeprefix("rms_norm_"), threads,
        kernel.registers, kernel.spilled, at_once, "" if has_loop(kernel.code) else waits)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path, help="all_lessons, or cubins")
    parser.add_argument("--profile", required=True, type=Path, help="what profile.sh counted")
    parser.add_argument("--csv", required=True, type=Path, help="the file to write")
    options = parser.parse_args()
    rows, left_out = [], set()
    try:
        kernels = [kernel for program in options.programs for kernel in kernels_of(program)]
        if not kernels:
            sys.exit(f"there is no kernel for {ARCHITECTURE} in {options.programs[0]}")
        with options.profile.open() as file:
            for profile in csv.DictReader(file):
                # A thread of this variant has a row of its own: its sectors are not used in full.
                # Other operations load more than x.
                is_of_row = not profile["implementation"].endswith("thread_per_row")
                if is_of_row and profile["operation"] == "rms_norm":
                    try:
                        rows.append(row_of(kernels, profile))
                    except LookupError as error:
                        left_out.add(str(error))
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        for what in sorted(left_out):
            print(f"left out: {what}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]}: {(error.stderr.strip() or 'it failed').splitlines()[-1]}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
