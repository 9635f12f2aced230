#include "common/cpu_device/compiler/features.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

namespace rmsnorm::cpu_device {
namespace {

/// What the CPU device lacks, by how the header's name begins or by a word.
struct Feature {
  std::string_view word;
  std::string_view name;
};
constexpr std::array kMissingHeaders{
    Feature{"cooperative_groups", "cooperative groups"},
    Feature{"cuda/", "libcu++"},
    Feature{"cub/", "CUB"},
    Feature{"thrust/", "Thrust"},
    Feature{"cublas", "cuBLAS"},
    Feature{"curand", "cuRAND"},
    Feature{"cufft", "cuFFT"},
    Feature{"cudnn", "cuDNN"},
    Feature{"nccl.h", "NCCL"},
    Feature{"mma.h", "tensor cores"},
};
// Of cuda::std, what is no calculation.
constexpr std::string_view kNotOfCudaStd[] = {"atomic", "barrier", "chrono", "latch", "semaphore"};
constexpr std::array kMissingWords{
    Feature{"clock64", "clock64(): there is no clock"},
    Feature{"__trap", "__trap()"},
    Feature{"tex1Dfetch", "tex1Dfetch(): there are no textures"},
    Feature{"cudaTextureObject_t", "cudaTextureObject_t: there are no textures"},
};

}  // namespace

std::string_view missing_header(std::string_view header) {
  if (std::filesystem::exists(std::filesystem::path(CPU_DEVICE_HEADERS) / header)) return "";
  const auto found = std::ranges::find_if(
      kMissingHeaders, [&](const Feature& feature) { return header.starts_with(feature.word); });
  return found == kMissingHeaders.end() ? "" : found->name;
}

bool is_in_std(std::string_view name) {
  return std::ranges::find(kNotOfCudaStd, name) == std::end(kNotOfCudaStd);
}

std::string_view missing_word(std::string_view word) {
  const auto found = std::ranges::find(kMissingWords, word, &Feature::word);
  return found == kMissingWords.end() ? "" : found->name;
}

}  // namespace rmsnorm::cpu_device
