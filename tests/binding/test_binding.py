"""library/python/rmsnorm/binding.py: what it hands to the library, seen by a stub in the library's
place.

Run by CTest; skipped (exit code 4) where PyTorch is not installed.
"""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(4)

ROOT = Path(__file__).resolve().parents[2]
TYPES = {torch.float32: "2.32.1", torch.float16: "2.16.1", torch.bfloat16: "4.16.1",
         torch.float8_e4m3fn: "10.8.1", torch.float8_e5m2: "12.8.1", torch.uint8: "1.8.1",
         torch.int32: "0.32.1", torch.int64: "0.64.1"}
OF_X = list(TYPES)[:3]
REFUSED = 3.0  # a weight_bias that the stub refuses
FAILED = 4.0  # and one with which CUDA could not do it
SLOW = 5.0  # and one with which it reads the tensors late
BINDING = ROOT / "library/python/rmsnorm/binding.py"
EXTENSION = ROOT / "library/python/rmsnorm/_fast.cpp"


def build(folder, *flags):
    """Compiles the stub; returns its path."""
    path = Path(folder, f"librmsnorm{len(list(Path(folder).iterdir()))}.so")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wall", "-Werror", *flags,
         "-I", ROOT / "library/include", ROOT / "tests/binding/stub.c", "-o", path], check=True)
    return path


def build_extension(folder):
    subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", "-Wall", "-Wextra",
         "-Wpedantic", "-Werror", "-isystem", sysconfig.get_path("include"), EXTENSION, "-o",
         Path(folder, "_fast.abi3.so")], check=True)


def binding(path=BINDING):
    """The binding as a program that has just imported it has it."""
    spec = importlib.util.spec_from_file_location("binding", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(**tensors):
    """What the stub writes down of tensors: each is one, one with another shape and strides, or None."""
    text = ""
    for name, tensor in tensors.items():
        tensor, *other = tensor if isinstance(tensor, tuple) else (tensor,)
        if tensor is None:
            text += f"{name} null; "
            continue
        shape, strides = [" ".join(map(str, some)) for some in
                          other or (tensor.shape, tensor.stride())]
        text += (f"{name}@{tensor.data_ptr()}+0 device 1 type {TYPES[tensor.dtype]}"
                 f" shape {shape} strides {strides}; ")
    return text


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.stub = build(cls.folder.name)
        cls.prepare()
        cls.rmsnorm = binding()
        cls.rmsnorm.load(str(cls.stub))

    @classmethod
    def prepare(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def said(self):
        """What the stub wrote down of the last call."""
        return self.rmsnorm._library.rmsnorm_last_error().decode()

    def assert_said(self, end, **tensors):
        self.assertEqual(self.said(), words(**tensors) + end)

    def test_a_tensor_is_handed_over_where_it_lies_with_its_strides(self):
        for dtype in OF_X:
            x = torch.zeros(5, 6, 40, dtype=dtype)[1:, ::2, 3:35]
            weight = torch.zeros(32, dtype=torch.float32)
            y = torch.zeros(4, 3, 32, dtype=dtype)
            self.assertIs(self.rmsnorm.rms_norm(x, weight, 1 / 1024, y, 1.0), y)
            self.assert_said("eps 1/1024 bias 1 stream 0", x=x, weight=weight, y=y)

    def test_other_dimensions_become_rows(self):
        for shape, rows in [((7,), (1, 7)), ((2, 3, 2, 2, 5), (24, 5)), ((2, 0, 4, 1, 5), (0, 5)),
                            ((2, 3, 2, 2, 0), (24, 0))]:
            x = torch.zeros(shape)
            y = self.rmsnorm.rms_norm(x, None, 0.0)
            self.assertEqual((y.shape, y.dtype), (x.shape, x.dtype))
            strides = (max(rows[1], 1), 1)
            self.assertIn(words(x=(x, rows, strides)) + "weight null", self.said())
        with self.assertRaisesRegex(RuntimeError, "view"):
            self.rmsnorm.rms_norm(torch.zeros(2, 3, 4, 5, 6).transpose(0, 1), None, 0.0)

    def test_four_dimensions_and_a_weight_of_heads_are_handed_over_as_they_are(self):
        x = torch.zeros(2, 4, 3, 8).transpose(1, 2)
        weight = torch.zeros(4, 8, dtype=torch.bfloat16)
        y, rstd = self.rmsnorm.rms_norm_rstd(x, weight, 0.0)
        self.assertEqual(y.stride(), x.stride())
        self.assert_said(
            "eps 0/1024 bias 0 stream 0", x=x, weight=weight, y=y, rstd=(rstd, (24,), (1,)))
        dy = torch.zeros(1).expand(2, 3, 4, 8)
        dx, dweight = self.rmsnorm.backward(dy, x, weight, rstd)
        self.assertEqual((dweight.shape, dweight.dtype), (weight.shape, weight.dtype))
        self.assert_said(
            "workspace 1 768 eps 0/1024 bias 0 stream 0", dy=dy, x=x, weight=weight,
            rstd=(rstd, (24,), (1,)), dx=dx, dweight=dweight)

    def test_q_and_k_are_one_call(self):
        q, k = torch.zeros(4, 9, 8).split((6, 3), dim=1)
        weights = torch.zeros(2, 8)
        out = self.rmsnorm.rms_norm_pair(q, weights[0], k, None, 0.0, out=(q, k))
        self.assertTrue(out[0] is q and out[1] is k)
        self.assert_said("eps 0/1024 bias 0 stream 0", q=q, q_weight=weights[0], q_out=q, k=k,
                         k_weight=None, k_out=k)

    def test_a_residual_and_both_passes_of_training_have_their_arguments_in_order(self):
        x, other, y = torch.zeros(3, 4, 8), torch.zeros(3, 4, 8), torch.zeros(3, 4, 8)
        weight = torch.zeros(8)
        self.rmsnorm.residual_add(x, other, weight, 0.0, out=y, weight_bias=1.0)
        self.assert_said("eps 0/1024 bias 1 stream 0", x=x, residual=other, weight=weight, y=y)

        y, rstd = self.rmsnorm.rms_norm_rstd(x, weight, 0.0)
        self.assertEqual((rstd.shape, rstd.dtype), ((3, 4), torch.float32))
        self.assert_said(
            "eps 0/1024 bias 0 stream 0", x=x, weight=weight, y=y, rstd=(rstd, (12,), (1,)))

        dx, dweight = self.rmsnorm.backward(other, x, weight, rstd, weight_bias=1.0)
        self.assert_said(
            "workspace 1 768 eps 0/1024 bias 1 stream 0", dy=other, x=x, weight=weight,
            rstd=(rstd, (12,), (1,)), dx=dx, dweight=dweight)
        self.assertIsNone(self.rmsnorm.backward(other, x, None, rstd)[1])

    def test_a_gate_and_its_gradients_have_their_arguments_in_order(self):
        x, z, dy = (torch.zeros(3, 4, 8) for _ in range(3))
        weight = torch.zeros(4, 8)
        y = self.rmsnorm.rms_norm_gated(x, z, weight, 1 / 1024, x, self.rmsnorm.FIRST, True, 1.0)
        self.assertIs(y, x)
        self.assert_said(
            "gate 1 rounding 1 eps 1/1024 bias 1 stream 0", x=x, z=z, weight=weight, y=x)
        dx, dz, dweight = self.rmsnorm.backward_gated(
            dy, x, z, weight, 1 / 1024, None, self.rmsnorm.FIRST, 1.0)
        self.assertEqual((dz.shape, dweight.shape), (z.shape, weight.shape))
        self.assert_said(
            "workspace 1 768 gate 1 eps 1/1024 bias 1 stream 0", dy=dy, x=x, z=z, weight=weight,
            dx=dx, dz=dz, dweight=dweight)
        self.assertIsNone(self.rmsnorm.backward_gated(dy, x, z, None, 0.0)[2])

    def test_a_rotation_and_its_caches_have_their_arguments_in_order(self):
        tokens, heads, columns = 6, (3, 2, 2), 8
        q, k, v = torch.zeros(2, 3, 7, columns).split(heads, dim=2)
        weights, tables = torch.zeros(2, columns), torch.zeros(9, columns)
        cos, sin = tables.chunk(2, -1)
        positions = torch.zeros(2, 3, dtype=torch.int64)
        slots = torch.zeros(tokens, dtype=torch.int32)
        k_cache, v_cache = torch.zeros(2, 4, 5, 2, columns).unbind()
        of_tokens = [(one, (tokens, one.shape[2], columns), (7 * columns, columns, 1))
                     for one in (q, k, v)]
        out = self.rmsnorm.rms_norm_rotated(
            q, weights[0], k, weights[1], cos, sin, positions, 1 / 1024, (q, k), v, k_cache,
            v_cache, slots, self.rmsnorm.INTERLEAVED, True, 1.0)
        self.assertTrue(out[0] is q and out[1] is k)
        self.assert_said(
            "rotation 1 rounding 1 eps 1/1024 bias 1 stream 0", q=of_tokens[0], q_weight=weights[0],
            q_out=of_tokens[0], k=of_tokens[1], k_weight=weights[1], k_out=of_tokens[1], cos=cos,
            sin=sin, positions=(positions, (tokens,), (1,)), v=of_tokens[2], k_cache=k_cache,
            v_cache=v_cache, slots=slots)
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        q_out, k_out = self.rmsnorm.rms_norm_rotated(q, None, k, None, cos, sin, None, 0.0)
        self.assertEqual((q_out.shape, k_out.shape), (q.shape, k.shape))
        self.assert_said(
            "rotation 0 rounding 0 eps 0/1024 bias 0 stream 0", q=q, q_weight=None, q_out=q_out,
            k=k, k_weight=None, k_out=k_out, cos=cos, sin=sin, positions=None, v=None, k_cache=None,
            v_cache=None, slots=None)

    def test_a_sum_over_ranks_is_of_rows(self):
        x, residual, weight = torch.zeros(2, 3, 8), torch.zeros(2, 3, 8), torch.zeros(8)
        y = self.rmsnorm.all_reduce_residual_add(
            x, residual, weight, 1 / 1024, 4096, None, self.rmsnorm.TWO_SHOT, 1.0)
        of_rows = [(one, (6, 8), (8, 1)) for one in (x, residual, y)]
        self.assert_said(
            "ranks 4096 protocol 2 eps 1/1024 bias 1 stream 0", x=of_rows[0], residual=of_rows[1],
            weight=weight, y=of_rows[2])

    def test_8_bits_are_handed_over_with_their_type_and_the_scales_as_they_lie(self):
        x, weight = torch.zeros(6, 2, 8)[::2], torch.zeros(8)
        residual, norm = torch.zeros(3, 2, 8), torch.zeros(3, 2, 8)
        one = torch.zeros(())
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            y = torch.zeros(3, 2, 8).to(dtype)
            scale = torch.zeros(1, 8).t()[:6].view(3, 2, 1)
            self.rmsnorm.rms_norm_fp8(
                x, weight, 0.0, y, scale, self.rmsnorm.GROUP, residual, one, norm, True, 1.0)
            self.assert_said(
                "scaling 2 rounding 1 eps 0/1024 bias 1 stream 0", x=x, residual=residual,
                weight=weight, y=y, scale=scale, limit=(one, (1,), (1,)), norm=norm)
        y = torch.zeros(5, 8).to(torch.float8_e4m3fn)
        self.rmsnorm.rms_norm_fp8(torch.zeros(5, 8), None, 0.0, y, one, self.rmsnorm.GIVEN)
        self.assertIn(
            words(y=y, scale=(one, (1,), (1,))) + "limit null; norm null; "
            + "scaling 0 rounding 0 ", self.said())
        self.rmsnorm.rms_norm(x, None, 0.0)  # a type is said of that one call
        self.assertIn(words(x=x), self.said())

    def test_scales_of_blocks_are_bytes_in_rows_or_in_tiles(self):
        x, y = torch.zeros(2, 3, 2, 2, 64), torch.zeros(2, 3, 2, 2, 64).to(torch.float8_e4m3fn)
        in_rows = torch.zeros(2, 3, 2, 2, 2, dtype=torch.uint8)
        self.rmsnorm.rms_norm_fp8(x, None, 0.0, y, in_rows, self.rmsnorm.BLOCK)
        self.assertIn(words(scale=(in_rows, (24, 2), (2, 1))), self.said())
        self.assertIn("scaling 3 ", self.said())
        in_tiles = torch.zeros(128 * 4, dtype=torch.uint8)
        self.rmsnorm.rms_norm_fp8(x, None, 0.0, y, in_tiles, self.rmsnorm.BLOCK)
        self.assertIn(words(scale=in_tiles), self.said())

    def test_scales_of_other_dimensions_become_those_of_rows(self):
        for shape, rows in [((7,), 1), ((2, 3, 2, 2, 5), 24)]:
            x, y = torch.zeros(shape), torch.zeros(shape).to(torch.float8_e4m3fn)
            scale, groups = torch.zeros(shape[:-1]), torch.zeros(*shape[:-1], 1)
            self.rmsnorm.rms_norm_fp8(x, None, 0.0, y, scale, self.rmsnorm.ROW)
            self.assertIn(words(scale=(scale, (rows,), (1,))), self.said())
            self.rmsnorm.rms_norm_fp8(x, None, 0.0, y, groups, self.rmsnorm.GROUP)
            self.assertIn(words(scale=(groups, (rows, 1), (1, 1))), self.said())

    def test_a_refusal_is_an_error_with_its_status_and_sentence(self):
        x = torch.zeros(2, 8)
        with self.assertRaises(self.rmsnorm.Error) as caught:
            self.rmsnorm.rms_norm(x, None, 0.0, out=x, weight_bias=REFUSED)
        self.assertEqual(caught.exception.status, 8)
        self.assertEqual(str(caught.exception), self.said())

    def test_what_cuda_cannot_do_is_a_failure_and_no_refusal(self):
        x = torch.zeros(2, 8)
        with self.assertRaises(self.rmsnorm.Failure) as caught:
            self.rmsnorm.rms_norm(x, None, 0.0, weight_bias=FAILED)
        self.assertEqual((caught.exception.status, str(caught.exception)), (9, self.said()))
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertTrue(issubclass(self.rmsnorm.Error, ValueError))

    def test_the_stream_is_the_current_one_of_the_tensors_device(self):
        class OnGpu(torch.Tensor):
            is_cuda = True

            def get_device(self):
                return 3

        x = torch.zeros(2, 8)
        with mock.patch.object(self.rmsnorm, "_raw_stream", lambda device: 1000 + device):
            self.rmsnorm.rms_norm(x.as_subclass(OnGpu), None, 0.0, out=x)
        self.assertTrue(self.said().endswith("stream 1003"))

    def test_a_library_beside_the_binding_is_found(self):
        folder = Path(self.folder.name, "site")
        folder.mkdir()
        shutil.copy(BINDING, folder)
        shutil.copy(self.stub, folder / "librmsnorm.so")
        for extension in Path(self.folder.name).glob("_fast*"):
            shutil.copy(extension, folder)
        found = binding(folder / "binding.py")
        self.assertEqual(found.version(), self.rmsnorm.version())
        for name, function in self.rmsnorm._functions.items():
            self.assertIs(type(found._functions[name]), type(function))

    def test_parameters_can_be_passed(self):
        weight = torch.nn.Parameter(torch.zeros(8))
        self.rmsnorm.rms_norm(torch.zeros(2, 8, requires_grad=True), weight, 0.0)
        self.assertIn(words(weight=weight), self.said())

    def test_what_is_no_tensor_and_no_number_is_a_mistake_of_the_caller(self):
        x = torch.zeros(2, 8)
        for arguments in (("x", None, 0.0, x), ([x], None, 0.0, x), (x, 1.0, 0.0),
                          (x, None, "1"), (x, None, 0.0, None, None), (x, None, torch.zeros(2))):
            with self.assertRaises((TypeError, ValueError, AttributeError, ctypes.ArgumentError)):
                self.rmsnorm.rms_norm(*arguments)
        with self.assertRaisesRegex(TypeError, "1.0 is a float: it needs to be a tensor"):
            self.rmsnorm.rms_norm(x, 1.0, 0.0)
        self.rmsnorm.rms_norm(x, None, 1, out=x, weight_bias=True)
        self.assertTrue(self.said().endswith("eps 1024/1024 bias 1 stream 0"))

    def test_what_pytorch_makes_no_view_of_is_refused_by_pytorch(self):
        with self.assertRaisesRegex((RuntimeError, BufferError), "meta"):
            self.rmsnorm.rms_norm(torch.zeros(2, 8), torch.zeros(8, device="meta"), 0.0)

    def test_references_are_given_back(self):
        x, weight, eps = torch.zeros(2, 8), torch.zeros(8), 1 / 1024
        function = self.rmsnorm._functions["rmsnorm_forward"]
        counted = (x, weight, eps, function, torch.Tensor, str)
        before = [sys.getrefcount(one) for one in counted]
        for _ in range(100):
            self.rmsnorm.rms_norm(x, weight, eps, out=x)
            for bias in (REFUSED, FAILED):
                with self.assertRaises((self.rmsnorm.Error, self.rmsnorm.Failure)):
                    self.rmsnorm.rms_norm(x, weight, eps, out=x, weight_bias=bias)
            with self.assertRaises((TypeError, AttributeError)):
                self.rmsnorm.rms_norm(x, "weight", eps, out=x)
        for one, count in zip(counted, before):
            self.assertLess(sys.getrefcount(one) - count, 50)

    def test_threads_do_not_share_their_views(self):
        x = [torch.zeros(2, 8 + i) for i in range(4)]
        said = [""] * len(x)

        def call(i):
            self.rmsnorm.rms_norm(x[i], torch.ones(8 + i), 0.0, out=x[i], weight_bias=SLOW)
            said[i] = self.said()

        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(x))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, one in enumerate(x):
            self.assertIn(words(x=one), said[i])

    def test_the_library_must_have_been_loaded(self):
        unloaded = binding()
        for call in (unloaded.version, lambda: unloaded.rms_norm(torch.zeros(2, 8), None, 0.0)):
            with self.assertRaisesRegex(RuntimeError, "load.. has to be called first"):
                call()

    def test_the_version_is_that_of_the_header_and_one_without_all_functions_is_refused(self):
        header = (ROOT / "library/include/rmsnorm.h").read_text()
        parts = [int(header.split(f"RMSNORM_VERSION_{part} ")[1].split()[0])
                 for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(self.rmsnorm.version(), tuple(parts))
        for major, minor in ((parts[0] + 1, 2), (parts[0], parts[1] - 1)):
            other = build(self.folder.name, f"-DSTUB_VERSION={major}{minor:02}03")
            with self.assertRaisesRegex(RuntimeError, f"is librmsnorm {major}.{minor}.3: "):
                binding().load(str(other))


HEADER = Path(sysconfig.get_path("include"), "Python.h")


@unittest.skipUnless(HEADER.exists(), "Python's headers are not installed")
@unittest.skipUnless(hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), "PyTorch is older than 2.10")
class WithExtension(Binding):
    """The same with the extension beside the library."""

    @classmethod
    def prepare(cls):
        build_extension(cls.folder.name)

    def test_every_function_is_the_extensions(self):
        for name in self.rmsnorm._FUNCTIONS:
            function = self.rmsnorm._functions[name]
            self.assertIs(type(function), type(len))
            self.assertEqual(function.__name__, name)

    def test_the_stream_is_the_current_one_of_the_tensors_device(self):
        view_writer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
        at = self.rmsnorm._table + self.rmsnorm._VIEW_WRITER_AT
        write_view = view_writer(ctypes.c_void_p.from_address(at).value)

        @view_writer
        def view(tensor, place):
            write_view(tensor, place)
            device = (ctypes.c_int32 * 2).from_address(place + 8)
            device[:] = 2, 3  # kDLCUDA and its index
            return 0

        @ctypes.PYFUNCTYPE(
            ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
        def current_stream(kind, device, stream):
            stream[0] = 1000 * kind + device
            return 0

        functions = [ctypes.cast(one, ctypes.c_void_p).value for one in (view, current_stream)]
        table = (ctypes.c_uint64 * 7)(1, 0, 0, 0, 0, *functions)
        rmsnorm = binding()
        x = torch.zeros(2, 8)
        with mock.patch.object(rmsnorm, "_table", ctypes.addressof(table)):
            rmsnorm.load(str(self.stub))
        rmsnorm.rms_norm(x, None, 0.0)
        self.assertTrue(self.said().endswith("stream 2003"))



if __name__ == "__main__":
    unittest.main()
