#include "library/call.hpp"

#include <algorithm>
#include <iterator>

namespace rmsnorm::library {
namespace {

thread_local char last_error[512] = "";

/// \throws Refusal if the error is one. `what` completes "CUDA could not".
void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is reported here, and not to the caller's next question
  refuse(RMSNORM_CUDA_ERROR, "CUDA could not {}: {}", what, cudaGetErrorString(error));
}

/// Makes a tensor's device the current one, as long as this lives.
class CurrentDevice {
 public:
  /// \throws Refusal if there is no such device.
  explicit CurrentDevice(const View& tensor) {
    check_cuda(cudaGetDevice(&before_), "name the current device");
    if (tensor.device == before_) return;
    int devices = 0;
    check_cuda(cudaGetDeviceCount(&devices), "count its devices");
    require(
        tensor.device >= 0 && tensor.device < devices, RMSNORM_BAD_DEVICE,
        "{} is on CUDA device {}: there {} {}", tensor.name, tensor.device,
        devices == 1 ? "is only" : "are", devices);
    check_cuda(cudaSetDevice(tensor.device), "switch to the tensors' device");
    switched_ = true;
  }
  ~CurrentDevice() {
    if (switched_) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool switched_ = false;
};

}  // namespace

void remember(std::string_view sentence) {
  const std::size_t size = std::min(sentence.size(), std::size(last_error) - 1);
  *std::copy_n(sentence.begin(), size, last_error) = '\0';
}

void enqueue(
    const Views& written, const Views& read, std::size_t in_place,
    const std::function<cudaError_t()>& launch) {
  const auto is_same = [&](std::size_t i, std::size_t k) {
    return i == k && i < in_place && written[i]->region == read[k]->region;
  };
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t k = 0; k < read.size(); ++k) {
      if (!is_same(i, k)) check_apart(*written[i], *read[k]);
    }
    for (std::size_t k = i + 1; k < written.size(); ++k) check_apart(*written[i], *written[k]);
  }
  const CurrentDevice device(*read.front());
  for (const View* tensor : read) check_memory(*tensor);
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!is_same(i, i)) check_memory(*written[i]);  // CUDA has been asked of that one
  }
  check_cuda(launch(), "launch the kernel");
}

}  // namespace rmsnorm::library

const char* rmsnorm_last_error(void) {
  return rmsnorm::library::last_error;
}
