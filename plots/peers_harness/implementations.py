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

from .check import EPS


class Missing(Exception):
    """An implementation, or an operation of one, that is not there; the text says why."""


class Implementation:
    """A library. Subclasses give norm(), and what they do better than by way of it."""

    name = ""
    version = ""

    def norm(self, x, weight, y):
        """Returns the norm of x, in y if the library can write there."""
        raise NotImplementedError

    def norm_both(self, q, k):
        """q and k are (x, weight, y). Returns both results."""
        return self.norm(*q), self.norm(*k)

    def add_and_norm(self, x, residual, weight, y):
        """Returns the norm of x + residual, and that sum."""
        raise Missing("has no sum and norm in one")

    def backward(self, x, weight, dy):
        """Runs the forward pass and returns a function that returns (dx, dweight).

        What is timed is torch.autograd.grad of the library's forward pass.
        """
        x = x.detach().requires_grad_()
        weight = weight.detach().requires_grad_()
        y = self.norm(x, weight, None)
        return lambda: torch.autograd.grad(y, (x, weight), dy, retain_graph=True)

    def launch_for(self, tensors):
        """The launch for a case. \\throws Missing"""
        regime = tensors.case.regime
        t = tensors
        if regime == "backward":
            runs = [self.backward(t.x[i][0], t.weight[i][0], t.dy[i]) for i in range(t.sets)]
            return lambda i: runs[i]()
        parts = [list(zip(t.x[i], t.weight[i], t.y[i])) for i in range(t.sets)]
        if regime == "residual_add":
            return lambda i: self.add_and_norm(
                parts[i][0][0], t.residual[i], parts[i][0][1], parts[i][0][2])
        if regime == "forward_3d":
            return lambda i: self.norm_both(*parts[i])
        return lambda i: (self.norm(*parts[i][0]),)


class Torch(Implementation):
    """PyTorch, eager. F.rms_norm allocates its result; sum and norm are two kernels."""

    name = "torch"

    def __init__(self):
        self.version = torch.__version__

    def norm(self, x, weight, y):
        return F.rms_norm(x, weight.shape, weight, EPS)

    def add_and_norm(self, x, residual, weight, y):
        residual.add_(x)
        return self.norm(residual, weight, y), residual


class TorchCompile(Torch):
    """PyTorch, compiled for each shape; q and k, and sum and norm, are one compiled function."""

    name = "torch.compile"
    mode = "default"

    def __init__(self):
        super().__init__()
        torch._functorch.config.donated_buffer = False  # the backward pass runs again and again

    def launch_for(self, tensors):
        eager = Torch()
        for operation in ("norm", "norm_both", "add_and_norm"):
            compiled = torch.compile(
                getattr(eager, operation), dynamic=False, fullgraph=True, mode=self.mode)
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

    def add_and_norm(self, x, residual, weight, y):
        self._binding.residual_add(x, residual, weight, EPS, out=y)
        return y, residual

    def backward(self, x, weight, dy):
        """What is timed is the library's backward pass alone, without autograd."""
        _, rstd = self._binding.rms_norm_rstd(x, weight, EPS)
        return lambda: self._binding.backward(dy, x, weight, rstd)
