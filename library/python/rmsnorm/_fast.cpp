// The functions of rmsnorm.h as Python's: what binding.py does through ctypes, in a fraction of the
// time. A function takes tensors (or None) and numbers, as rmsnorm.h has them, but for the stream,
// and returns its rmsnorm_status. Its stream is the current one of the first tensor's device.
//
// bind() makes one of the address of the library's function. Neither the library nor PyTorch is
// linked: views of tensors and streams come from PyTorch's table of DLPack's functions.
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "../../include/rmsnorm.h"

namespace {

/** What is needed of DLPack's struct DLPackExchangeAPI, which older headers do not have. */
struct ExchangeTable {
  struct {
    std::uint32_t major, minor;
  } version;
  const ExchangeTable* older;
  void (*others[3])();
  // Both raise an exception of Python, or return 0.
  int (*view)(void* tensor, DLTensor* view);
  int (*current_stream)(int device_type, std::int32_t device, void** stream);
};

/** A function of the library, and how its tensors are seen. */
struct Target {
  void (*function)();
  const ExchangeTable* table;
  PyTypeObject* tensor;  // torch.Tensor, which lives as long as its table
};

/** What is left of a call's arguments. */
struct Call {
  const Target& target;
  PyObject* const* next;
  const DLTensor* first = nullptr;  // of its tensors
};

/** An argument as the library takes it. Made from Python's by set(), which otherwise raises. */
template <typename Type>
struct Argument;

template <>
struct Argument<const DLTensor*> {
  DLTensor memory;
  const DLTensor* value = nullptr;

  bool set(Call& call) {
    PyObject* object = *call.next++;
    if (object == Py_None) return true;
    if (!PyType_IsSubtype(Py_TYPE(object), call.target.tensor)) {
      auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
      if (PyObject* name = PyObject_GetAttrString(type, "__name__")) {
        PyErr_Format(PyExc_TypeError, "%R is a %U: it needs to be a tensor", object, name);
        Py_DECREF(name);
      }
      return false;
    }
    if (call.target.table->view(object, &memory) != 0) return false;
    value = &memory;
    if (call.first == nullptr) call.first = value;
    return true;
  }
};

template <>
struct Argument<float> {
  float value;

  bool set(Call& call) {
    value = static_cast<float>(PyFloat_AsDouble(*call.next++));
    return !PyErr_Occurred();
  }
};

template <typename Type>
requires std::is_enum_v<Type>
struct Argument<Type> {
  Type value;

  bool set(Call& call) {
    value = static_cast<Type>(PyLong_AsLong(*call.next++));
    return !PyErr_Occurred();
  }
};

template <>
struct Argument<std::size_t> {
  std::size_t value;

  bool set(Call& call) {
    value = PyLong_AsSize_t(*call.next++);
    return !PyErr_Occurred();
  }
};

/** An address. */
template <typename Type>
struct Argument<Type*> {
  Type* value;

  bool set(Call& call) {
    value = static_cast<Type*>(PyLong_AsVoidPtr(*call.next++));
    return !PyErr_Occurred();
  }
};

/** The stream, which comes after all tensors, and of which Python says nothing. */
template <>
struct Argument<CUstream_st*> {
  CUstream_st* value = nullptr;

  bool set(Call& call) {
    if (call.first == nullptr || call.first->device.device_type != kDLCUDA) return true;
    void* stream = nullptr;
    if (call.target.table->current_stream(kDLCUDA, call.first->device.device_id, &stream) != 0) {
      return false;
    }
    value = static_cast<CUstream_st*>(stream);
    return true;
  }
};

template <typename... Types>
PyObject* call(
    const Target& target, rmsnorm_status (*function)(Types...), PyObject* const* given,
    Py_ssize_t count) {
  constexpr Py_ssize_t wanted = (!std::is_same_v<Types, CUstream_st*> + ...);
  if (count != wanted) {
    return PyErr_Format(PyExc_TypeError, "%zd arguments: it needs %zd", count, wanted);
  }
  std::tuple<Argument<Types>...> arguments;
  Call call{target, given};
  const auto set = [&call](auto&... each) { return (each.set(call) && ...); };
  if (!std::apply(set, arguments)) return nullptr;
  PyThreadState* const thread = PyEval_SaveThread();  // a launch waits if the GPU's queue is full
  const rmsnorm_status status =
      std::apply([function](auto&... each) { return function(each.value...); }, arguments);
  PyEval_RestoreThread(thread);
  return PyLong_FromLong(status);
}

Target* target_of(PyObject* capsule) {
  return static_cast<Target*>(PyCapsule_GetPointer(capsule, nullptr));
}

template <typename Function>
PyObject* call_bound(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  const Target& target = *target_of(self);
  return call(target, reinterpret_cast<Function*>(target.function), given, count);
}

template <typename Function>
PyCFunction erased(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

#define FUNCTION(name) \
  { #name, erased(call_bound <decltype(name)>), METH_FASTCALL, nullptr }
PyMethodDef functions[] = {
    FUNCTION(rmsnorm_forward),
    FUNCTION(rmsnorm_forward_pair),
    FUNCTION(rmsnorm_residual_add),
    FUNCTION(rmsnorm_forward_fp8),
    FUNCTION(rmsnorm_forward_rstd),
    FUNCTION(rmsnorm_backward_workspace_bytes),
    FUNCTION(rmsnorm_backward),
    FUNCTION(rmsnorm_forward_gated),
    FUNCTION(rmsnorm_backward_gated_workspace_bytes),
    FUNCTION(rmsnorm_backward_gated),
    FUNCTION(rmsnorm_forward_rotated),
    FUNCTION(rmsnorm_all_reduce_residual_add),
};
#undef FUNCTION

/** bind(name, address, table, torch.Tensor): the library's function of that name, with the
 * addresses of it and of PyTorch's table. */
PyObject* bind(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  unsigned long long function = 0, table = 0;
  PyTypeObject* tensor = nullptr;
  if (!PyArg_ParseTuple(arguments, "sKKO!", &name, &function, &table, &PyType_Type, &tensor)) {
    return nullptr;
  }
  for (PyMethodDef& known : functions) {
    if (std::strcmp(known.ml_name, name) != 0) continue;
    auto* target = new Target{
        reinterpret_cast<void (*)()>(function), reinterpret_cast<const ExchangeTable*>(table),
        tensor};
    PyObject* capsule =
        PyCapsule_New(target, nullptr, [](PyObject* self) { delete target_of(self); });
    if (capsule == nullptr) {
      delete target;
      return nullptr;
    }
    PyObject* bound = PyCFunction_New(&known, capsule);
    Py_DECREF(capsule);  // it is the function's now
    return bound;
  }
  return PyErr_Format(PyExc_ValueError, "rmsnorm.h has no %s", name);
}

PyMethodDef methods[] = {{"bind", bind, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_fast", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__fast() {
  return PyModuleDef_Init(&definition);
}
