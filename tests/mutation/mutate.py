"""Makes mutants of the lessons, each by one small edit, and lets ./rmsnorm check look at them.

Those that it calls right, survivors, have to be in survivors.txt, with the reason: nobody can tell
the mutant from the lesson, or the check has a gap. The seed decides which are drawn: it goes into
a hash of each edit, so that a change of a lesson changes few of the others.
"""

import argparse
import collections
import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTED = ROOT / "tests/mutation/survivors.txt"
RECORDED = ROOT / "plots/data/mutants.csv"
ENDS = ("not compiled", "same code", "rejected", "no end")  # of what does not survive
BUILT_FROM = "02_naive"  # of the program check_mutant
KERNEL = "check_mutant_kernel"
COUNT = 10  # of each lesson, in what is recorded

# `nth` counts the lines of the lesson that read `old`.
Mutant = collections.namedtuple("Mutant", "lesson operator line nth old new")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|",
              "|": "&", "&&": "||", "||": "&&"}
OPERAND = r"[\w.]+(?:\[\w+\])?"

# An operator's name, what it looks for in a line without its comment, and what it writes there.
OPERATORS = [
    ("comparison", r"(?<= )(<=|>=|<|>|==|!=)(?= )", lambda m: [COMPARISONS[m[0]]]),
    ("arithmetic", r"(?<= )([-+*/%&|]|<<|>>|&&|\|\|)(?= )", lambda m: [ARITHMETIC[m[0]]]),
    ("arithmetic", r"(?<= )([-+*/])=(?= )", lambda m: ["=", ARITHMETIC[m[1]] + "="]),
    ("operands", rf"(?<!:)({OPERAND})( [-/%] )({OPERAND})(?!:)", lambda m: [m[3] + m[2] + m[1]]),
    ("operands", r"\? ([^?:;]+) : ([^?:;,)]+)", lambda m: [f"? {m[2]} : {m[1]}"]),
    ("operands", r"\b(max|min)(?=\()", lambda m: ["min" if m[0] == "max" else "max"]),
    ("barrier", r"^ *(__sync|__threadfence|cuda\w*Synchronize|wait_|arrive_|cluster\.[sb])\w*\(&?\w*\);",
     lambda m: [""]),
    ("constant", r"(?<![\w.])\d+(?![\w.])", lambda m: [f"{int(m[0]) + 1}", f"{int(m[0]) - 1}"]),
    ("constant", r"(?<![\w.])\d+\.\d*f?", lambda m: ["0", f"2 * {m[0]}"]),
    ("index", r"\[([^][&]+)\]", lambda m: [f"[{m[1]} + 1]", f"[{m[1]} - 1]"]),
    ("type", r"\bfloat(?= \w+( =|\[))", lambda m: ["int", "half"]),
    ("type", r"\bstd::int64_t\b", lambda m: ["int"]),
    ("type", r"\bint(?= \w+ =)", lambda m: ["short"]),
    ("shuffle", r"0xffffffff", lambda m: ["0x7fffffff", "0xffff"]),
    ("shuffle", r"\bdistance(?=\))", lambda m: ["distance + 1", "distance * 2"]),
    ("shuffle", r"__shfl(_\w+)?_sync", lambda m: ["__shfl_down_sync", "__shfl_up_sync"]),
    ("launch", r"(?<=, )stream(?=[,>)])|(?<== )stream(?=;)", lambda m: ["nullptr"]),
    ("launch", r"(?<=<<<)[^,]+", lambda m: [f"{m[0]} + 1", f"{m[0]} - 1"]),
    ("launch", r"(?<=<<<)([^,]+, [^,]+)", lambda m: [f"{m[1]} / 2", f"{m[1]} + 1"]),
    ("name", r"\b(threadIdx|blockIdx|blockDim)(?=\.)",
     lambda m: ["threadIdx", "blockIdx", "blockDim"]),
    ("name", r"\bp\.(rows|hidden)\b", lambda m: ["p.rows", "p.hidden"]),
    ("name", r"(?<![\w.])(rows|hidden|vectors)\b", lambda m: ["rows", "hidden", "vectors"]),
    ("name", r"(?<=\w\.)[xyzw]\b", lambda m: list("xyz")),
    ("statement", r"\bif \(.*\)(?= )", lambda m: ["if (true)", "if (false)"]),
    ("statement", r"^ *[\w.\[\]]+( [-+*/]?= .*|\(.*\));", lambda m: [""]),
    ("statement", r"\b(return|continue);", lambda m: [";"]),
]


def source_of(lesson):
    return ROOT / "lessons" / lesson / "rms_norm.cu"


def identity(mutant):
    """What stays when the lesson changes elsewhere."""
    return mutant.lesson, mutant.nth, mutant.old, mutant.new


def mutants_of(lesson):
    """All mutants of a lesson: one for each place and what an operator writes there."""
    source = source_of(lesson).read_text()
    words = set(re.findall(r"\w+", source))
    is_code, seen, found = False, collections.Counter(), {}
    for number, line in enumerate(source.splitlines(), 1):
        is_code = line in ("namespace {", "}};") or is_code and "rmsnorm::Registration" not in line
        if not is_code or re.match(r" *(#|static_assert|extern|\.)", line):
            continue
        seen[line] += 1
        code = re.sub(r'//.*|"[^"]*"', lambda m: " " * len(m[0]), line)
        for operator, pattern, writes in OPERATORS:
            for match in re.finditer(pattern, code):
                for text in writes(match):
                    new = (line[:match.start()] + text + line[match.end():]).strip()
                    if text == match[0] or set(re.findall(r"half|vectors|hidden", text)) - words:
                        continue
                    mutant = Mutant(lesson, operator, number, seen[line], line.strip(), new)
                    found.setdefault(identity(mutant), mutant)
    return list(found.values())


def text_of(mutant):
    lines = source_of(mutant.lesson).read_text().splitlines()
    lines[mutant.line - 1] = mutant.new
    return "\n".join(lines) + "\n"


def drawn(lesson, seed, count):
    """So many mutants of a lesson, taken from each operator in turn."""
    by_operator = collections.defaultdict(list)
    for mutant in mutants_of(lesson):
        text = f"{seed} {identity(mutant)}".encode()
        by_operator[mutant.operator].append((hashlib.sha256(text).digest(), mutant))
    turns = [turn for of_one in by_operator.values() for turn in enumerate(sorted(of_one))]
    return [mutant for _, (_, mutant) in sorted(turns)[:count]]


class Check:
    """Builds files as the build folder builds check_mutant, and runs what comes out."""

    def __init__(self, build):
        self.build = build
        said = subprocess.run(["ninja", "-C", build, "-t", "commands", "check_mutant"],
                              capture_output=True, text=True, check=True).stdout
        # To rewrite, to compile and to link.
        self.commands = [line for line in said.splitlines() if f"{KERNEL}/rms_norm.cpp" in line]

    def build_step(self, step, folder, lesson):
        """Whether one of the three steps succeeds for the rms_norm.cu in a folder."""
        built, own = source_of(BUILT_FROM), source_of(lesson)
        command = self.commands[step]
        for old, new in [(f"{built} ", f"{folder}/rms_norm.cu "),
                         (f"{built.parent} ", f"{own.parent} "),
                         (f"tests/CMakeFiles/{KERNEL}.dir/rewritten/{KERNEL}/", f"{folder}/"),
                         (f"{self.build}/tests/rewritten/{KERNEL}/", f"{folder}/"),
                         ("-o tests/check_mutant ", f"-o {folder}/check_mutant ")]:
            command = command.replace(old, new)
        return subprocess.run(command, shell=True, cwd=self.build, capture_output=True,
                              check=step == 2).returncode == 0

    def code(self, folder, lesson, text):
        """What the text compiles to, without debugging information; b"" if it does not compile."""
        Path(folder, "rms_norm.cu").write_text(f'#line 1 "{source_of(lesson)}"\n{text}')
        if not all(self.build_step(step, folder, lesson) for step in (0, 1)):
            return b""
        subprocess.run(["strip", "-g", "-o", f"{folder}/bare.o", f"{folder}/rms_norm.cpp.o"],
                       check=True)
        return Path(folder, "bare.o").read_bytes()

    @functools.cache
    def lesson_code(self, lesson):
        with tempfile.TemporaryDirectory() as folder:
            return self.code(folder, lesson, source_of(lesson).read_text())

    def verdict(self, mutant):
        with tempfile.TemporaryDirectory() as folder:
            code = self.code(folder, mutant.lesson, text_of(mutant))
            if not code:
                return "not compiled"
            if code == self.lesson_code(mutant.lesson):
                return "same code"
            self.build_step(2, folder, mutant.lesson)
            try:
                ran = subprocess.run([f"{folder}/check_mutant"], capture_output=True, text=True,
                                     errors="replace", timeout=600, check=False)
            except subprocess.TimeoutExpired:
                return "the check has no end"
        if ran.returncode == 1:
            return "no end" if ": no end after" in ran.stdout else "rejected"
        known = {0: "survived", 3: "not compiled", 5: "rejected"}  # 5: a line has not run
        return known.get(ran.returncode, f"the check ended with {ran.returncode}")


def verdicts_on(mutants, verdict_on, believed):
    """What verdict_on says of each; those that are believed to survive are not checked again."""
    verdicts = {mutant: "survived" for mutant in mutants}
    checked = [mutant for mutant in mutants if identity(mutant) not in believed]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, verdict in zip(checked, pool.map(verdict_on, checked)):
            verdicts[mutant] = verdict
            print(f"{verdict:12} {mutant.lesson}:{mutant.line} {mutant.operator}: {mutant.new}",
                  flush=True)
    return verdicts


def listed(text):
    """The mutants in survivors.txt, each with its verdict there: equivalent, or not found."""
    found, verdict = {}, None
    for block in text.strip().split("\n\n"):
        reason = re.match(r"(equivalent|not found): \S", block)
        entry = re.fullmatch(r"(\w+)(?:, (\d+))?\n- (.*)\n\+(.*)", block)
        if entry and verdict:
            found[entry[1], int(entry[2] or 1), entry[3], entry[4].strip()] = verdict
        elif reason:
            verdict = reason[1]
        elif not block.startswith("#"):
            sys.exit(f"survivors.txt: this is neither a reason nor a mutant:\n{block}")
    return found


def described(key):
    """A mutant as survivors.txt has it."""
    lesson, nth, old, new = key
    return f"{lesson}{f', {nth}' if nth > 1 else ''}\n- {old}\n+ {new}".rstrip()


def complaints(verdicts, known):
    """What is not as survivors.txt has it, a reason for each identity."""
    wrong = {}
    for mutant, verdict in verdicts.items():
        key = identity(mutant)
        if verdict == "survived" and key not in known:
            wrong[key] = "the check calls it right, and survivors.txt does not list it"
        elif verdict != "survived" and key in known:
            wrong[key] = f"survivors.txt lists it, and it is '{verdict}'"
        elif verdict not in ("survived", *ENDS):
            wrong[key] = verdict
    lessons, drawn_now = {m.lesson for m in verdicts}, {identity(m) for m in verdicts}
    for key in known.keys() - drawn_now:
        if key[0] in lessons:
            wrong[key] = "survivors.txt lists it, and it is not drawn any more"
    return wrong


def scores(verdicts, known):
    """As a CSV: how many mutants of a lesson, by an operator, had a verdict."""
    counts = collections.Counter(
        (mutant.lesson, mutant.operator, known.get(identity(mutant), verdict))
        for mutant, verdict in verdicts.items())
    rows = [",".join([*key, str(counts[key])]) for key in sorted(counts)]
    return "\n".join(["lesson,operator,verdict,mutants", *rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("build", help="a build for the CPU device, with the program check_mutant")
    parser.add_argument("--seed", type=int, help="draw others, none of which is listed")
    parser.add_argument("--count", type=int, default=COUNT, help="of each lesson (%(default)s)")
    parser.add_argument("--lesson", help="its mutants alone, as in 04_warp_reduce")
    parser.add_argument("--keep", metavar="DIR", help="a folder: write the survivors there")
    parser.add_argument("--record", action="store_true",
                        help="check what survivors.txt lists, too; write plots/data/mutants.csv")
    options = parser.parse_args()
    lessons = sorted(path.parent.name for path in ROOT.glob("lessons/*/rms_norm.cu"))
    mutants = [mutant for lesson in lessons if options.lesson in (None, lesson)
               for mutant in drawn(lesson, options.seed or 1, options.count)]
    known = listed(LISTED.read_text()) if options.seed is None else {}
    if options.count < COUNT:  # it lists others, too
        known = {key: known[key] for key in map(identity, mutants) if key in known}
    believed = {} if options.record or options.lesson else known
    verdicts = verdicts_on(mutants, Check(os.path.abspath(options.build)).verdict, believed)
    wrong = complaints(verdicts, known)
    for key, why in sorted(wrong.items()):
        print(f"\n{why}:\n{described(key)}")
    for number, mutant in enumerate(mutants if options.keep else []):
        if verdicts[mutant] == "survived":
            name = f"{mutant.lesson}_{mutant.line}_{number}.cu"
            Path(options.keep, name).write_text(text_of(mutant))
    if wrong or options.seed is not None or options.lesson or options.count != COUNT:
        sys.exit(bool(wrong))
    if options.record:
        RECORDED.write_text(scores(verdicts, known))
    elif RECORDED.read_text() != scores(verdicts, known):
        sys.exit(f"{RECORDED} is out of date: --record writes it, and ./rmsnorm plot the page")


if __name__ == "__main__":
    main()
