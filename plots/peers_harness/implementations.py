"""The implementations: how each library is asked for each operation.

An implementation offers launches: launch(set) enqueues the operation on the current stream and
returns its outputs. Whatever a library wants done once (compiling, tuning, the forward pass before
a backward pass) happens before the launch is recorded.
"""

import importlib
import importlib.metadata

import torch
import torch._functorch.config
import torch.nn.functional as F

from .cases import BLOCK, GROUP
from .check import EPS, LEAST_SCALE, MOST, Roundings, number_of, power_for


class Missing(Exception):
    """An implementation, or an operation of one, that is not there; the text says why."""


def quantised(norm, scale, scaling):
    """A norm in 8 bits, and the scales if they are not given. Of whatever type, it counts as it is."""
    norm = norm.float()
    if scaling == "given":
        return ((norm / scale).clamp(-MOST, MOST).to(torch.float8_e4m3fn),)
    width = {"group": GROUP, "block": BLOCK}.get(scaling, norm.shape[-1])
    parts = norm.unflatten(-1, (-1, width))
    scales = parts.abs().amax(-1) / MOST
    if scaling == "block":
        exponents = power_for(scales)
        y = (parts / number_of(exponents)[..., None]).clamp(-MOST, MOST)
        return y.to(torch.float8_e4m3fn).flatten(-2), exponents.to(torch.uint8)
    scales = scales.clamp(min=LEAST_SCALE)
    y = (parts / scales[..., None]).clamp(-MOST, MOST).to(torch.float8_e4m3fn).flatten(-2)
    return y, scales if scaling == "group" else scales.squeeze(-1)


class Implementation:
    """A library. Subclasses give norm(), and what they do better than by way of it."""

    name = ""
    version = ""
    roundings = Roundings()  # of its norms in 8 bits

    def norm(self, x, weight, y):
        """Returns the norm of x, in y if the library can write there."""
        raise NotImplementedError

    def norm_both(self, q, k):
        """q and k are (x, weight, y). Returns both results."""
        return self.norm(*q), self.norm(*k)

    def rotate_both(self, q, k, cos, sin):
        """The same, and both are turned: columns c and c + half of each head by the token's angle."""
        raise Missing("has no rotation")

    def add_and_norm(self, x, residual, weight, y):
        """Returns the norm of x + residual, and that sum."""
        raise Missing("has no sum and norm in one")

    def norm_gated(self, x, z, weight, y, is_first):
        """Returns the norm of x times silu(z) or, if that is first, the norm of x * silu(z)."""
        raise Missing("has no gate")

    def norm_fp8(self, x, weight, y, scale, scaling):
        """Returns the norm of x in 8 bits, and the scales if they are not given."""
        raise Missing("has no norm in 8 bits")

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        """Returns the same of x + residual, and that sum."""
        raise Missing("has no sum and norm in 8 bits")

    def backward(self, x, weight, dy):
        """Runs the forward pass and returns a function that returns (dx, dweight).

        What is timed is torch.autograd.grad of the library's forward pass.
        """
        x = x.detach().requires_grad_()
        weight = weight.detach().requires_grad_()
        y = self.norm(x, weight, None)
        return lambda: torch.autograd.grad(y, (x, weight), dy, retain_graph=True)

    def gated_backward(self, x, z, weight, dy):
        """The same with a gate, which is last: (dx, dz, dweight)."""
        inputs = [tensor.detach().requires_grad_() for tensor in (x, z, weight)]
        y = self.norm_gated(*inputs, None, False)
        return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)

    def launch_for(self, tensors):
        """The launch for a case. \\throws Missing"""
        t, case, scaling = tensors, tensors.case, tensors.case.scaling
        if case.is_backward and case.is_gated:
            runs = [self.gated_backward(t.x[i][0], t.z[i], t.weight[i][0], t.dy[i])
                    for i in range(t.sets)]
            return lambda i: runs[i]()
        if case.is_backward:
            runs = [self.backward(t.x[i][0], t.weight[i][0], t.dy[i]) for i in range(t.sets)]
            return lambda i: runs[i]()
        parts = [list(zip(t.x[i], t.weight[i], t.y[i])) for i in range(t.sets)]
        if case.is_gated:
            return lambda i: (self.norm_gated(
                parts[i][0][0], t.z[i], *parts[i][0][1:], case.regime == "gated_first"),)
        if scaling and case.has_residual:
            return lambda i: self.add_and_norm_fp8(
                parts[i][0][0], t.residual[i], *parts[i][0][1:], t.scale[i], scaling)
        if scaling:
            return lambda i: self.norm_fp8(*parts[i][0], t.scale[i], scaling)
        if case.has_residual:
            return lambda i: self.add_and_norm(
                parts[i][0][0], t.residual[i], parts[i][0][1], parts[i][0][2])
        if case.is_turned:
            return lambda i: self.rotate_both(*parts[i], *t.tables)
        if case.is_of_pair:
            return lambda i: self.norm_both(*parts[i])
        return lambda i: (self.norm(*parts[i][0]),)


class Formula(Implementation):
    """A norm in 8 bits as PyTorch's operations in fp32: what is to be compiled."""

    def norm_fp8(self, x, weight, y, scale, scaling):
        x = x.float()
        rstd = (x.square().mean(-1, keepdim=True) + EPS).rsqrt()
        return quantised(x * rstd * weight.float(), scale, scaling)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        total = x.float() + residual.float()
        residual.copy_(total)
        return *self.norm_fp8(total, weight, y, scale, scaling), residual


class Torch(Implementation):
    """PyTorch, eager. F.rms_norm allocates its result; sum and norm are two kernels, and what makes
    8 bits of it are some more."""

    name = "torch"
    roundings = Roundings(of_norm=True, of_sum=True)

    def __init__(self):
        self.version = torch.__version__

    def norm(self, x, weight, y):
        return F.rms_norm(x, weight.shape, weight, EPS)

    def add_and_norm(self, x, residual, weight, y):
        residual.add_(x)
        return self.norm(residual, weight, y), residual

    def rotate_both(self, q, k, cos, sin):
        turned = []
        for normed in self.norm_both(q, k):
            first, second = normed.float().chunk(2, -1)
            c, s = cos[:, None], sin[:, None]
            halves = (first * c - second * s, second * c + first * s)
            turned.append(torch.cat(halves, -1).to(normed.dtype))
        return tuple(turned)

    def norm_gated(self, x, z, weight, y, is_first):
        if is_first:
            return self.norm(x * F.silu(z), weight, y)
        return self.norm(x, weight, y) * F.silu(z)

    def norm_fp8(self, x, weight, y, scale, scaling):
        return quantised(self.norm(x, weight, None), scale, scaling)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        normed, residual = self.add_and_norm(x, residual, weight, None)
        return *quantised(normed, scale, scaling), residual


class TorchCompile(Torch):
    """PyTorch, compiled for each shape; q and k, sum and norm, and the formula of one in 8 bits, are
    one compiled function each."""

    name = "torch.compile"
    mode = "default"
    roundings = Roundings()

    def __init__(self):
        super().__init__()
        torch._functorch.config.donated_buffer = False  # the backward pass runs again and again

    def launch_for(self, tensors):
        eager, formula = Torch(), Formula()
        for owner, operation in [
            (eager, "norm"), (eager, "norm_both"), (eager, "rotate_both"), (eager, "add_and_norm"),
            (eager, "norm_gated"), (formula, "norm_fp8"), (formula, "add_and_norm_fp8")
        ]:
            compiled = torch.compile(
                getattr(owner, operation), dynamic=False, fullgraph=True, mode=self.mode)
            setattr(self, operation, compiled)
        return super().launch_for(tensors)


class TorchCompileMax(TorchCompile):
    """The same, with the mode that tries more kernels; the CUDA graph is ours."""

    name = "torch.compile/max"
    mode = "max-autotune-no-cudagraphs"


class Liger(Implementation):
    """Liger Kernel (Triton). It allocates its results, and always stores rstd."""

    name = "liger"

    def __init__(self):
        operations = importlib.import_module("liger_kernel.ops")  # what its modules call
        self._norm = operations.LigerRMSNormFunction
        self._add_and_norm = operations.LigerFusedAddRMSNormFunction
        self.version = importlib.metadata.version("liger-kernel")

    def norm(self, x, weight, y):
        # eps, offset, casting mode, in place: dy, which others need, must stay.
        return self._norm.apply(x, weight, EPS, 0.0, "llama", False)

    def add_and_norm(self, x, residual, weight, y):
        return self._add_and_norm.apply(x, residual, weight, EPS, 0.0, "llama", False)


class FlashInfer(Implementation):
    """FlashInfer. It writes where it is told; sum and norm overwrite x and the residual."""

    name = "flashinfer"

    def __init__(self):
        self._library = importlib.import_module("flashinfer.norm")
        self.version = importlib.metadata.version("flashinfer-python")

    def norm(self, x, weight, y):
        self._library.rmsnorm(x, weight, EPS, out=y)
        return y

    def add_and_norm(self, x, residual, weight, y):
        self._library.fused_add_rmsnorm(x, residual, weight, EPS)
        return x, residual

    def norm_fp8(self, x, weight, y, scale, scaling):
        if scaling != "given":
            raise Missing("has no norm in 8 bits that chooses scales")
        self._function("rmsnorm_quant")(y, x, weight, scale, EPS)
        return (y,)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        if scaling != "given":
            raise Missing("has no sum and norm in 8 bits that chooses scales")
        self._function("fused_add_rmsnorm_quant")(y, x, residual, weight, scale, EPS)
        return y, residual

    def _function(self, name):
        function = getattr(self._library, name, None)
        if function is None:
            raise Missing(f"has no {name} in this version")
        return function

    def backward(self, x, weight, dy):
        raise Missing("has no backward pass")


class Quack(Implementation):
    """QuACK (CuTe DSL). It allocates its results."""

    name = "quack"

    def __init__(self):
        self._norm = importlib.import_module("quack").rmsnorm
        self.version = importlib.metadata.version("quack-kernels")

    def norm(self, x, weight, y):
        return self._norm(x, weight, eps=EPS)

    def add_and_norm(self, x, residual, weight, y):
        return self._norm(x, weight, residual=residual, eps=EPS, prenorm=True)


class CuDnn(Implementation):
    """cuDNN, through its Python frontend: a graph of one norm, for inference, with the plan that cuDNN
    chooses. It writes where it is told."""

    name = "cudnn"
    _X, _WEIGHT, _EPS, _Y = range(1, 5)  # tensors of a graph

    def __init__(self):
        self._cudnn = importlib.import_module("cudnn")
        number = self._cudnn.backend_version()
        self.version = f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
        self._handle = self._cudnn.create_handle()
        self._graphs = {}  # of a shape and type: a graph and its workspace

    def norm(self, x, weight, y):
        key = x.shape, x.dtype
        if key not in self._graphs:
            self._graphs[key] = self._build(*x.shape, x.dtype)
        graph, workspace = self._graphs[key]
        self._cudnn.set_stream(handle=self._handle, stream=torch.cuda.current_stream().cuda_stream)
        eps = torch.full((1, 1, 1, 1), EPS)  # on the host
        graph.execute(
            (x[..., None, None], weight[None, :, None, None], eps, y[..., None, None]), workspace,
            handle=self._handle, tensor_uids=(self._X, self._WEIGHT, self._EPS, self._Y))
        return y

    def norm_both(self, q, k):
        raise Missing("has no norm of two tensors")

    def backward(self, x, weight, dy):
        raise Missing("is here for its forward pass")

    def _build(self, rows, hidden, dtype):
        types = self._cudnn.data_type
        io = {torch.bfloat16: types.BFLOAT16, torch.float16: types.HALF, torch.float32: types.FLOAT}
        graph = self._cudnn.pygraph(
            handle=self._handle, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT)
        strides = [hidden, 1, 1, 1]
        x = graph.tensor(
            name="x", dim=[rows, hidden, 1, 1], stride=strides, data_type=io[dtype], uid=self._X)
        weight = graph.tensor(
            name="weight", dim=[1, hidden, 1, 1], stride=strides, data_type=io[dtype],
            uid=self._WEIGHT)
        eps = graph.tensor(
            name="eps", dim=[1] * 4, stride=[1] * 4, data_type=types.FLOAT, uid=self._EPS,
            is_pass_by_value=True)
        y, _ = graph.rmsnorm(
            name="norm", norm_forward_phase=self._cudnn.norm_forward_phase.INFERENCE, input=x,
            scale=weight, bias=None, epsilon=eps)
        y.set_uid(self._Y).set_output(True).set_data_type(io[dtype])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([self._cudnn.heur_mode.A, self._cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        size = max(graph.get_workspace_size(), 1)
        return graph, torch.empty(size, dtype=torch.uint8, device="cuda")


class Librmsnorm(Implementation):
    """This project's library, through its binding library/python/rmsnorm/binding.py. It writes where it is
    told; q and k are one launch."""

    name = "librmsnorm"

    def __init__(self, binding, version):
        self._binding = binding
        self.version = version

    def norm(self, x, weight, y):
        return self._binding.rms_norm(x, weight, EPS, out=y)

    def norm_both(self, q, k):
        (q, q_weight, q_out), (k, k_weight, k_out) = q, k
        return self._binding.rms_norm_pair(q, q_weight, k, k_weight, EPS, out=(q_out, k_out))

    def rotate_both(self, q, k, cos, sin):
        (q, q_weight, q_out), (k, k_weight, k_out) = q, k
        return self._binding.rms_norm_rotated(
            q, q_weight, k, k_weight, cos, sin, None, EPS, (q_out, k_out))

    def add_and_norm(self, x, residual, weight, y):
        self._binding.residual_add(x, residual, weight, EPS, out=y)
        return y, residual

    def norm_gated(self, x, z, weight, y, is_first):
        return self._binding.rms_norm_gated(x, z, weight, EPS, y, int(is_first))

    def gated_backward(self, x, z, weight, dy):
        return lambda: self._binding.backward_gated(dy, x, z, weight, EPS)

    def norm_fp8(self, x, weight, y, scale, scaling):
        return self._fp8(x, None, weight, y, scale, scaling)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        return *self._fp8(x, residual, weight, y, scale, scaling), residual

    def _fp8(self, x, residual, weight, y, scale, scaling):
        binding = self._binding
        value = {"given": binding.GIVEN, "row": binding.ROW, "group": binding.GROUP,
                 "block": binding.BLOCK}[scaling]
        binding.rms_norm_fp8(x, weight, EPS, y, scale, value, residual)
        return (y,) if scaling == "given" else (y, scale)

    def backward(self, x, weight, dy):
        """What is timed is the library's backward pass alone, without autograd."""
        _, rstd = self._binding.rms_norm_rstd(x, weight, EPS)
        return lambda: self._binding.backward(dy, x, weight, rstd)


class LibrmsnormTwo(Librmsnorm):
    """Two kernels. For 8 bits, the library's norm in the type of x, and what PyTorch compiles to make
    8 bits of that. With a residual, PyTorch's addition, and the library's norm of the rounded sum."""

    name = "librmsnorm/two"
    roundings = Roundings(of_norm=True)

    def norm_fp8(self, x, weight, y, scale, scaling):
        return self._quantised(self._binding.rms_norm(x, weight, EPS), scale, scaling)

    def add_and_norm_fp8(self, x, residual, weight, y, scale, scaling):
        normed = self._binding.residual_add(x, residual, weight, EPS)
        return *self._quantised(normed, scale, scaling), residual

    def add_and_norm(self, x, residual, weight, y):
        return self.norm(residual.add_(x), weight, y), residual

    def launch_for(self, tensors):
        if not tensors.case.scaling and not tensors.case.has_residual:
            raise Missing("is for 8 bits and residuals alone")
        if tensors.case.scaling:
            self._quantised = torch.compile(quantised, dynamic=False, fullgraph=True)
        return super().launch_for(tensors)
