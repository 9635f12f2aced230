#include "tests/faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/device.hpp"
#include "common/contract/expected.hpp"
#include "common/tensors/buffer.hpp"

namespace tests {

using namespace rmsnorm;

namespace {

std::uint32_t get_bits(const void* data, Dtype dtype, std::int64_t index) {
  std::uint32_t bits = 0;
  copy_bytes(&bits, static_cast<const std::byte*>(data) + index * bytes_of(dtype), bytes_of(dtype));
  return bits_at(&bits, dtype, 0);
}

void put_bits(void* data, Dtype dtype, std::int64_t index, std::uint32_t bits) {
  std::uint32_t memory = 0;
  set_bits(&memory, dtype, 0, bits);
  copy_bytes(static_cast<std::byte*>(data) + index * bytes_of(dtype), &memory, bytes_of(dtype));
}

/// A tensor of a problem.
struct Place {
  void* data;
  Dtype dtype;
  std::int64_t size;
};

Place place_of(const Operation& operation, const std::string& tensor, const Problem& p) {
  const int i = operation.index_of(tensor);
  const TensorSpec& spec = operation.tensors[i];
  return {p.tensors[i], dtype_of(spec, types_of(p)), static_cast<std::int64_t>(size_of(spec, p))};
}

/// Collects the faults of an operation.
class Faults {
 public:
  Faults(const Operation& operation, Memory memory) : operation_(operation), memory_(memory) {}

  std::vector<Fault> all() {
    for (const TensorSpec& tensor : operation_.tensors) {
      is_written(tensor) ? of_output(tensor) : of_input(tensor);
    }
    of_launch();
    return faults_;
  }

 private:
  void add(const std::string& name, const std::string& complaint, Launch launch) {
    faults_.push_back(
        {name, implementation_with(operation_, memory_, std::move(launch)), complaint});
  }

  /// A change of a tensor, of one element or more, after a right launch.
  void add(
      const std::string& tensor, const std::string& name, const std::string& complaint,
      const std::function<void(const Place&)>& change) {
    const auto then = [operation = &operation_, tensor, change](const Problem& p) {
      change(place_of(*operation, tensor, p));
    };
    faults_.push_back(
        {fmt::format("{}: {}", tensor, name), right_and_then(operation_, memory_, then),
         complaint});
  }

  void of_output(const TensorSpec& spec) {
    const std::string name = spec.name;
    const std::string of = name == "y" ? "" : name + "'s ";
    const std::string first = of + (is_matrix(spec) ? "row 0, column 0" : "column 0");
    const std::string last = is_matrix(spec) ? "rows * hidden" : "hidden";
    add(name, "first element wrong", first + ": expected ",
        [](const Place& p) { put(p.data, p.dtype, 0, 1.5f * get(p.data, p.dtype, 0)); });
    add(name, "last element wrong", ": expected ", [](const Place& p) {
      put(p.data, p.dtype, p.size - 1, 1.5f * get(p.data, p.dtype, p.size - 1));
    });
    add(name, "a NaN in the middle", "got nan",
        [](const Place& p) { put(p.data, p.dtype, p.size / 2, NAN); });
    add(name, "an element before it written",
        fmt::format("wrote 1 elements before the start of {}", name),
        [](const Place& p) { put(p.data, p.dtype, -1, 0); });
    add(name, "an element after it written",
        fmt::format("wrote 1 elements after the end of {0}, the first at {0}[{1} + 0]", name, last),
        [](const Place& p) { put(p.data, p.dtype, p.size, 0); });
    if (spec.role != Role::output) return;
    add(name, "last element not written", "was not written",
        [](const Place& p) { put_bits(p.data, p.dtype, p.size - 1, poison_bits(p.dtype)); });
    add(name, "not written", first + " was not written", [](const Place& p) {
      for (std::int64_t i = 0; i < std::min<std::int64_t>(p.size, 10); ++i) {
        put_bits(p.data, p.dtype, i, poison_bits(p.dtype));
      }
    });
  }

  void of_input(const TensorSpec& spec) {
    const auto change = [](const Place& p) {
      if (p.data != nullptr) nudge(p.data, p.dtype, p.size - 1);
    };
    const auto change_after = [](const Place& p) {
      if (p.data != nullptr) put(p.data, p.dtype, p.size, 0);
    };
    add(spec.name, "changed", "changed memory outside", change);
    add(spec.name, "what lies behind it changed", "changed memory outside", change_after);
  }

  void of_launch() {
    const Operation& operation = operation_;
    const auto nothing = [](const Problem&, cudaStream_t) { return cudaSuccess; };
    add("nothing is written", "row 0, column 0 was not written", nothing);
    add("the launch is refused", "the launch failed: invalid configuration", nothing);
    faults_.back().implementation.launch = [&operation](const Problem& p, cudaStream_t) {
      store_solution(operation, p);  // and the error still has to be noticed
      return cudaErrorInvalidConfiguration;
    };
    add("writes behind the workspace", "wrote 1 elements after the end of the workspace",
        [&operation](const Problem& p, cudaStream_t) {
          store_solution(operation, p);
          put(p.workspace, Dtype::fp32, 2, 1);
          return cudaSuccess;
        });
    const auto launches = std::make_shared<int>(0);
    const int launches_of_a_test = memory_ == Memory::device ? 3 : 2;  // with the rehearsal
    const std::string output = first_output();
    add("the second launch gives other bits", "second launch",
        [=, &operation](const Problem& p, cudaStream_t) {
          store_solution(operation, p);
          const Place place = place_of(operation, output, p);
          if (++*launches % launches_of_a_test == 1) return cudaSuccess;
          if (operation.same_bits) {
            nudge(place.data, place.dtype, 0);
          } else {
            put(place.data, place.dtype, 0, 1e3f);
          }
          return cudaSuccess;
        });
  }

  std::string first_output() const {
    for (const TensorSpec& tensor : operation_.tensors) {
      if (tensor.role == Role::output) return tensor.name;
    }
    return "";
  }

  const Operation& operation_;
  Memory memory_;
  std::vector<Fault> faults_;
};

}  // namespace

float get(const void* data, Dtype dtype, std::int64_t index) {
  return value_of(dtype, get_bits(data, dtype, index));
}

void put(void* data, Dtype dtype, std::int64_t index, float value) {
  put_bits(data, dtype, index, bits_of(dtype, value));
}

void nudge(void* data, Dtype dtype, std::int64_t index) {
  put_bits(data, dtype, index, get_bits(data, dtype, index) ^ 1);
}

/// What was to happen at once happens when it is the stream's turn.
Launch on_stream(Launch launch) {
  return [=](const Problem& p, cudaStream_t stream) {
    if (!is_cpu_device()) {
      cudaStreamSynchronize(stream);
      return launch(p, stream);
    }
    // Nothing on the stream can return an error: it shows to those who wait.
    auto* const work = new std::function<void()>([=] { launch(p, stream); });
    const auto call = [](void* data) {
      const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(data));
      (*owned)();
    };
    const cudaError_t error = cudaPeekAtLastError();
    const cudaError_t queued = cudaLaunchHostFunc(stream, call, work);
    return error == cudaSuccess ? queued : error;
  };
}

Implementation implementation_with(const Operation& operation, Memory memory, Launch launch) {
  if (memory == Memory::device) launch = on_stream(std::move(launch));
  return {
      .slug = "00_fake",
      .title = "Fake",
      .idea = "An implementation for the tests",
      .regime = "decode",
      .memory = memory,
      .operation = &operation,
      .is_typed = true,
      .launch = std::move(launch),
      .unsupported = [](const Problem&) { return ""; },
      .traffic =
          [](const Problem& p) {
            return Traffic{8.0 * p.hidden, 4.0 * p.hidden};
          },
      // A bound as loose as that of a fast kernel.
      .sum_depth = [](const Problem& p) { return SumDepth(p.hidden / 8 + 1, p.rows); },
      .workspace_bytes = [](const Problem&) { return std::size_t{8}; }};
}

Implementation right(const Operation& operation, Memory memory) {
  return right_and_then(operation, memory, [](const Problem&) {});
}

Implementation right_and_then(
    const Operation& operation, Memory memory, std::function<void(const Problem&)> change) {
  const auto launch = [=, &operation](const Problem& p, cudaStream_t) {
    store_solution(operation, p);
    change(p);
    return cudaSuccess;
  };
  return implementation_with(operation, memory, launch);
}

std::vector<Fault> faults(const Operation& operation, Memory memory) {
  return Faults(operation, memory).all();
}

}  // namespace tests
