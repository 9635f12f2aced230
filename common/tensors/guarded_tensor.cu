#include <algorithm>
#include <cstring>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/contract/expected.hpp"
#include "common/tensors/guarded_tensor.hpp"
#include "common/tensors/random.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

/// Element i of a tensor of rows of that length, of the given content, as the bits of its type.
__host__ __device__ std::uint32_t element(
    Content content, Dtype dtype, std::uint64_t seed, std::uint64_t i, std::uint64_t length) {
  switch (content) {
    case Content::x:
      return bits_of(dtype, random_x(seed, i / length, i % length, length));
    case Content::weight:
      return bits_of(dtype, random_weight(seed, i));
    case Content::scale:
      return bits_of(dtype, random_scale(seed ^ length << 32, i));
    case Content::below:
      return static_cast<std::uint32_t>(random_bits(seed, i) % length);
    case Content::places:
      return static_cast<std::uint32_t>(random_place(seed, i, length));
    case Content::nan:
      return bits_of(dtype, float_of(0x7fc00000));
    case Content::poison:
      break;
  }
  return poison_bits(dtype);
}

/// Whether the host does the work: the CPU device's memory is the host's, which is quicker there
/// than a kernel.
bool is_for_host(Memory memory) {
  return memory == Memory::host || is_cpu_device();
}

/// Waits for what lies on a stream, before the host does what a kernel would do after it.
void wait_for(Memory memory, const char* what) {
  if (memory == Memory::device) cuda_check(cudaDeviceSynchronize(), what);
}

/// Adds up a hash of every word and its place.
template <class Word>
std::uint64_t hash_on_host(const void* data, std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, at + i * sizeof word, sizeof word);
    sum += random_bits(word, i);
  }
  return sum;
}

/// On the device. Its words may be of another size: hashes of one kind alone are compared.
template <class Word>
__global__ void hash_on_device(const Word* data, std::size_t size, unsigned long long* sum) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < size; i += step) mine += random_bits(data[i], i);
  if (mine != 0) atomicAdd(sum, mine);
}

/// Enough blocks for so many elements, or for several elements a thread.
unsigned blocks_for(std::size_t size) {
  return static_cast<unsigned>(std::min<std::size_t>(size / kThreads + 1, 4096));
}

template <class Word>
void start_hash(const void* data, std::size_t bytes, unsigned long long* sum) {
  const std::size_t size = bytes / sizeof(Word);
  hash_on_device<Word><<<blocks_for(size), kThreads>>>(static_cast<const Word*>(data), size, sum);
  cuda_check(cudaGetLastError(), "checking the memory");
}

__global__ void fill_on_device(
    void* to, std::size_t size, Content content, Dtype dtype, std::uint64_t seed,
    std::uint64_t length) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    set_bits(to, dtype, i, element(content, dtype, seed, i, length));
  }
}

void fill_memory(
    Memory memory, void* to, std::size_t size, Content content, Dtype dtype, std::uint64_t seed = 0,
    std::int64_t length = 1) {
  if (size == 0) return;
  if (is_for_host(memory)) {
    wait_for(memory, "filling a tensor");
    for (std::size_t i = 0; i < size; ++i) {
      set_bits(to, dtype, i, element(content, dtype, seed, i, length));
    }
  } else {
    fill_on_device<<<blocks_for(size), kThreads>>>(to, size, content, dtype, seed, length);
    cuda_check(cudaGetLastError(), "filling a tensor");
  }
}

constexpr std::size_t kBoundary = 256;  // bytes

/// Bytes from the start of one tensor, or piece, to the next: the tensor, up to a boundary, one
/// more such step for a misaligned start, and a guard.
std::size_t stride_of(Dtype dtype, std::size_t size) {
  const std::size_t steps = (size * bytes_of(dtype) + kBoundary - 1) / kBoundary + 1;
  return steps * kBoundary + GuardedTensor::kGuardBytes;
}

/// The same of one set's tensor: of so many pieces, and of what the guards between them have grown.
std::size_t stride_of_set(Dtype dtype, std::size_t size, int pieces) {
  const Pieces all = {static_cast<std::int64_t>(stride_of(dtype, size / pieces)), kBoundary};
  return static_cast<std::size_t>(all.offset(pieces) - pieces * kBoundary);
}

}  // namespace

GuardedTensor::GuardedTensor(
    Memory memory, Dtype dtype, std::size_t size, int sets, int misalign, int pieces, int uneven)
    : memory_(memory),
      dtype_(dtype),
      piece_size_(size / pieces),
      pieces_(pieces),
      sets_(sets),
      misalign_(misalign),
      uneven_(uneven),
      buffer_(memory, bytes(dtype, size, sets, pieces)) {}

std::size_t GuardedTensor::bytes(Dtype dtype, std::size_t size, int sets, int pieces) {
  return kGuardBytes + stride_of_set(dtype, size, pieces) * sets;
}

void GuardedTensor::fill(
    Content content, std::uint64_t seed, std::int64_t length, Content guard) const {
  fill_memory(memory_, buffer_.data(), buffer_.bytes() / bytes_of(dtype_), guard, dtype_);
  for (int i = 0; i < sets_ * pieces_; ++i) {
    void* const to = data(i / pieces_, i % pieces_);
    fill_memory(memory_, to, piece_size_, content, dtype_, seed + i, length);
  }
}

void GuardedTensor::fill(Content content) const {
  fill_memory(memory_, buffer_.data(), buffer_.bytes() / bytes_of(dtype_), content, dtype_);
  if (memory_ == Memory::device) cuda_check(cudaDeviceSynchronize(), "filling a tensor");
}

Pieces GuardedTensor::where_pieces_are() const {
  const std::size_t further = uneven_ == 0 ? kBoundary : uneven_ * bytes_of(dtype_);
  return {
      static_cast<std::int64_t>(stride_of(dtype_, piece_size_)),
      static_cast<std::int64_t>(further)};
}

void* GuardedTensor::data(int set, int piece) const {
  const std::size_t first =
      kGuardBytes + stride_of_set(dtype_, size(), pieces_) * set + misalign_ * bytes_of(dtype_);
  return buffer_.data() + first + where_pieces_are().offset(piece);
}

const void* GuardedTensor::guard(int side, int piece) const {
  const auto* first = static_cast<const std::byte*>(data(0, piece));
  return side == 0 ? first - kGuardBytes : first + piece_size_ * bytes_of(dtype_);
}

std::vector<float> GuardedTensor::values() const {
  std::vector<float> all;
  for (int piece = 0; piece < pieces_; ++piece) {
    const std::vector<float> values = to_floats(data(0, piece), dtype_, piece_size_);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<int> GuardedTensor::integers() const {
  std::vector<int> all(piece_size_);
  copy_bytes(all.data(), data(), piece_size_ * sizeof(int));
  return all;
}

void GuardedTensor::set(const std::vector<float>& values) const {
  for (int piece = 0; piece < pieces_; ++piece) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(piece * piece_size_);
    from_floats({first, first + static_cast<std::ptrdiff_t>(piece_size_)}, data(0, piece), dtype_);
  }
}

std::uint64_t GuardedTensor::hash(const void* data, std::size_t bytes) const {
  if (is_for_host(memory_)) {
    wait_for(memory_, "checking the memory");
    return bytes % sizeof(std::uint64_t) == 0 ? hash_on_host<std::uint64_t>(data, bytes)
                                              : hash_on_host<std::uint8_t>(data, bytes);
  }
  unsigned long long sum = 0;
  const Buffer on_device(Memory::device, sizeof sum);
  auto* device_sum = reinterpret_cast<unsigned long long*>(on_device.data());
  cuda_check(cudaMemset(device_sum, 0, sizeof sum), "preparing a check of the memory");
  const std::size_t divisible = reinterpret_cast<std::uintptr_t>(data) | bytes;
  const auto start = divisible % 4 == 0   ? start_hash<std::uint32_t>
                     : divisible % 2 == 0 ? start_hash<std::uint16_t>
                                          : start_hash<std::uint8_t>;
  start(data, bytes, device_sum);
  cuda_check(
      cudaMemcpy(&sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost), "checking the memory");
  return sum;
}

std::uint64_t GuardedTensor::hash() const {
  return hash(buffer_.data(), buffer_.bytes());
}

std::uint64_t GuardedTensor::hash_without_first() const {
  std::uint64_t sum = 0;
  const std::byte* begin = buffer_.data();
  for (int piece = 0; piece < pieces_; ++piece) {
    const auto* const first = static_cast<const std::byte*>(data(0, piece));
    sum += hash(begin, first - begin);
    begin = first + piece_size_ * bytes_of(dtype_);
  }
  return sum + hash(begin, buffer_.data() + buffer_.bytes() - begin);
}

std::uint64_t GuardedTensor::hash_of_first() const {
  std::uint64_t sum = 0;
  for (int piece = 0; piece < pieces_; ++piece) {
    sum = sum * 31 + hash(data(0, piece), piece_size_ * bytes_of(dtype_));
  }
  return sum;
}

}  // namespace rmsnorm
