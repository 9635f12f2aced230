#include "common/tensors/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/base/cuda_check.hpp"
#include "common/contract/expected.hpp"

namespace rmsnorm {
namespace {

/// Where a tensor starts, in elements behind a boundary, and how much later its pieces do.
struct Start {
  int misalign;
  int uneven;
};

GuardedTensor make_tensor(
    const TensorSpec& tensor, const WorkloadSpec& spec, const Sizes& sizes, int sets, Start start) {
  return {
      spec.memory,
      dtype_of(tensor, spec.types),
      size_of(tensor, sizes),
      sets,
      start.misalign,
      pieces_of(tensor, sizes),
      start.uneven};
}

/// The random numbers of a tensor that is read.
void fill(
    const GuardedTensor& to, const TensorSpec& tensor, const WorkloadSpec& spec,
    const Sizes& sizes) {
  const Content guard = is_written(tensor) ? Content::poison : Content::nan;
  to.fill(content_of(tensor), spec.seed ^ tensor.salt, length_for_fill(tensor, sizes), guard);
}

/// Poison where it is written, NaN elsewhere; of integers other ones: NaN leads nowhere.
void fill_empty(
    const GuardedTensor& to, const TensorSpec& tensor, WorkloadSpec spec, const Sizes& sizes) {
  if (tensor.elements == Elements::int32) {
    ++spec.seed;
    return fill(to, tensor, spec, sizes);
  }
  to.fill(is_written(tensor) ? Content::poison : Content::nan);
}

/// "rows * hidden"; of a piece where there are pieces.
std::string size_in_words(const TensorSpec& tensor) {
  std::vector<std::string> lengths;
  for (const Side& side : tensor.sides) {
    if (side.is_apart) continue;
    lengths.emplace_back(side == side::hidden ? "hidden" : fmt::format("{}s", side.one));
  }
  return lengths.empty() ? "1" : fmt::format("{}", fmt::join(lengths, " * "));
}

}  // namespace

Workload::Workload(const Operation& operation, const WorkloadSpec& spec)
    : operation_(operation), spec_(spec) {
  const Sizes sizes = sizes_of(operation, spec);
  if (!operation.takes(spec.hidden)) {
    throw std::runtime_error(fmt::format(
        "hidden is {}, and {} takes multiples of {}", spec.hidden, operation.name,
        operation.hidden_multiple));
  }
  if (!spec.types.weight && spec.types.weight_bias != 0) {
    throw std::runtime_error(fmt::format(
        "weight_bias is {}, and there is no weight: it needs to be 0", spec.types.weight_bias));
  }
  allocate();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation.tensors[i];
    if (before_[i]) rmsnorm::fill(*before_[i], tensor, spec, sizes);
    const bool is_random = tensor.role == Role::input || before_[i];
    is_random ? rmsnorm::fill(tensors_[i], tensor, spec, sizes)
              : fill_empty(tensors_[i], tensor, spec, sizes);
  }
  for (int set = 0; set < spec.sets; ++set) operation.derive(problem(set), spec.memory);
}

Workload::Workload(const Workload& other, Elsewhere)
    : operation_(other.operation_), spec_(other.spec_), is_random_(other.is_random_) {
  allocate();
  const Sizes sizes = sizes_of(operation_, spec_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    fill_empty(tensors_[i], operation_.tensors[i], spec_, sizes);
    if (before_[i]) before_[i]->fill(Content::nan);
  }
}

void Workload::allocate() {
  const Sizes sizes = sizes_of(operation_, spec_);
  int first = spec_.misalign;
  for (const TensorSpec& tensor : operation_.tensors) {
    const int shift = std::ssize(tensors_) == spec_.shifted ? 1 : 0;
    const Start start =
        is_apart(tensor) ? Start{first, spec_.spread + shift} : Start{first + shift, 0};
    tensors_.push_back(make_tensor(tensor, spec_, sizes, spec_.sets, start));
    before_.emplace_back();
    if (tensor.role == Role::in_place) {
      before_.back().emplace(make_tensor(tensor, spec_, sizes, 1, start));
    }
    first += spec_.spread;
  }
}

Workload Workload::moved() const {
  return {*this, Elsewhere()};
}

void Workload::take(const Workload& from, cudaStream_t stream) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_read(operation_.tensors[i])) continue;
    const GuardedTensor& source = from.before_[i] ? *from.before_[i] : from.tensors_[i];
    const std::size_t bytes = source.piece_size() * bytes_of(source.dtype());
    for (int piece = 0; piece < source.pieces(); ++piece) {
      void* const data = source.data(0, piece);
      if (before_[i]) copy_bytes(before_[i]->data(0, piece), data, bytes);
      cuda_check(
          cudaMemcpyAsync(
              tensors_[i].data(0, piece), data, bytes, cudaMemcpyDeviceToDevice, stream),
          "moving an input");
      const bool is_integer = operation_.tensors[i].elements == Elements::int32;
      // Places that are all different have to stay so: another launch may be given them.
      if (from.before_[i] || operation_.tensors[i].integers.are_distinct) continue;
      const int nothing = is_integer ? 0 : 0xff;
      cuda_check(cudaMemsetAsync(data, nothing, bytes, stream), "clearing an input");
    }
  }
}

Problem Workload::problem(int set) const {
  Problem p = problem_without_tensors(operation_, spec_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (is_there(operation_.tensors[i], spec_.types)) p.tensors[i] = tensors_[i].data(set);
    p.pieces[i] = tensors_[i].where_pieces_are();
  }
  return p;
}

Problem Workload::before() const {
  Problem p = problem();
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (!before_[i]) continue;
    p.tensors[i] = before_[i]->data();
    p.pieces[i] = before_[i]->where_pieces_are();
  }
  return p;
}

const GuardedTensor& Workload::tensor(std::string_view name) const {
  return tensors_[operation_.index_of(name)];
}

void Workload::set(std::string_view name, const std::vector<float>& values) const {
  const int i = operation_.index_of(name);
  tensors_[i].set(values);
  if (before_[i]) before_[i]->set(values);
  is_random_ = false;
  operation_.derive(problem(), spec_.memory);
}

void Workload::reset() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const GuardedTensor& tensor = tensors_[i];
    if (before_[i]) {
      const std::size_t bytes = tensor.piece_size() * bytes_of(tensor.dtype());
      for (int piece = 0; piece < tensor.pieces(); ++piece) {
        copy_bytes(tensor.data(0, piece), before_[i]->data(0, piece), bytes);
      }
    } else if (is_written(operation_.tensors[i])) {
      tensor.fill(Content::poison);
    }
  }
}

std::uint64_t Workload::hash_of_untouchables() const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation_.tensors[i];
    const bool may_change = is_written(tensor) && is_there(tensor, spec_.types);
    hash += may_change ? tensors_[i].hash_without_first() : tensors_[i].hash();
  }
  return hash;
}

std::uint64_t Workload::hash_of_results() const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (is_written(operation_.tensors[i])) hash += tensors_[i].hash_of_first();
  }
  return hash;
}

std::string Workload::complaint_about_guards() const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSpec& tensor = operation_.tensors[i];
    if (!is_written(tensor)) continue;
    std::string complaint =
        rmsnorm::complaint_about_guards(tensors_[i], tensor.name, size_in_words(tensor));
    if (!complaint.empty()) return complaint;
  }
  return "";
}

std::string Workload::complaint_about_places() const {
  for (const TensorSpec& spec : operation_.tensors) {
    if (spec.places == std::string_view()) continue;
    const Side& first = *spec.sides.begin();
    const std::int64_t number = first.length(sizes_of(operation_, spec_));
    std::vector<bool> is_chosen(static_cast<std::size_t>(number));
    for (const int place : tensor(spec.places).integers()) {
      is_chosen.at(static_cast<std::size_t>(place)) = true;
    }
    const GuardedTensor& written = tensor(spec.name);
    const std::size_t elements = written.size() / is_chosen.size();
    const auto* const data = static_cast<const std::byte*>(written.data());
    for (std::size_t place = 0; place < is_chosen.size(); ++place) {
      if (is_chosen[place]) continue;
      const std::byte* const here = data + place * elements * bytes_of(written.dtype());
      const std::vector<float> now = to_floats(here, written.dtype(), elements);
      if (std::ranges::all_of(now, is_poison)) continue;
      return fmt::format(
          "wrote {}'s {} {}, which is none of {}", spec.name, first.one, place, spec.places);
    }
  }
  return "";
}

std::int64_t Workload::bytes_to_move() const {
  return rmsnorm::bytes_to_move(operation_, sizes_of(operation_, spec_), spec_.types);
}

std::int64_t Workload::elements() const {
  return lines_of(operation_, sizes_of(operation_, spec_)) * spec_.hidden;
}

std::size_t Workload::bytes(const Operation& operation, const WorkloadSpec& spec) {
  const Sizes sizes = sizes_of(operation, spec);
  std::size_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    const Dtype dtype = dtype_of(tensor, spec.types);
    const std::size_t size = size_of(tensor, sizes);
    const int pieces = pieces_of(tensor, sizes);
    bytes += GuardedTensor::bytes(dtype, size, spec.sets, pieces);
    if (tensor.role == Role::in_place) bytes += GuardedTensor::bytes(dtype, size, 1, pieces);
  }
  return bytes;
}

Sizes sizes_of(const Operation& operation, const WorkloadSpec& spec) {
  Sizes sizes{.rows = spec.rows, .hidden = spec.hidden};
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    sizes.more[i] = spec.more[i] != 0 ? spec.more[i] : operation.sizes[i].values[0];
  }
  return sizes;
}

float scalar_of(const Operation& operation, const WorkloadSpec& spec, std::size_t number) {
  return spec.scalars[number].value_or(operation.scalars[number].values[0]);
}

std::string text_of_sizes(const Operation& operation, const Sizes& sizes) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < operation.sizes.size(); ++i) {
    texts.push_back(fmt::format("{}={}", operation.sizes[i].name, sizes.more[i]));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

Problem problem_without_tensors(const Operation& operation, const WorkloadSpec& spec) {
  Problem p;
  static_cast<Sizes&>(p) = sizes_of(operation, spec);
  p.eps = spec.eps;
  for (std::size_t i = 0; i < operation.scalars.size(); ++i) {
    p.scalars[i] = scalar_of(operation, spec, i);
  }
  p.weight_bias = spec.types.weight_bias;
  p.dtype = spec.types.dtype;
  p.weight_dtype = spec.types.weight.value_or(spec.types.dtype);
  p.has_weight = spec.types.weight.has_value();
  return p;
}

std::int64_t length_for_fill(const TensorSpec& tensor, const Sizes& sizes) {
  const auto below = tensor.integers.below;
  return below == nullptr ? sizes.hidden : below(sizes);
}

Content content_of(const TensorSpec& tensor) {
  if (tensor.elements == Elements::int32) {
    return tensor.integers.are_distinct ? Content::places : Content::below;
  }
  if (tensor.sides.size() == 0) return Content::scale;
  return is_matrix(tensor) ? Content::x : Content::weight;
}

GuardedTensor make_workspace(Memory memory, std::size_t bytes, int ranks) {
  const std::size_t elements = (bytes + 3) / 4;
  GuardedTensor workspace(memory, Dtype::fp32, elements * ranks, 1, 0, ranks);
  workspace.fill(Content::poison);
  return workspace;
}

void give(Problem& problem, const GuardedTensor& workspaces) {
  problem.workspace = workspaces.data();
  problem.workspace_pieces = workspaces.where_pieces_are();
}

std::string complaint_about_guards(
    const GuardedTensor& tensor, std::string_view name, std::string_view size) {
  for (int piece = 0; piece < tensor.pieces(); ++piece) {
    const std::string of =
        tensor.pieces() == 1 ? std::string(name) : fmt::format("piece {} of {}", piece, name);
    for (const int side : {0, 1}) {
      const std::size_t elements = GuardedTensor::kGuardBytes / bytes_of(tensor.dtype());
      const std::vector<float> guard =
          to_floats(tensor.guard(side, piece), tensor.dtype(), elements);
      const auto is_overwritten = [](float value) { return !is_poison(value); };
      const auto overwritten = std::ranges::count_if(guard, is_overwritten);
      if (overwritten == 0) continue;
      const auto first = std::ranges::find_if(guard, is_overwritten) - guard.begin();
      return side == 0 ? fmt::format("wrote {} elements before the start of {}", overwritten, of)
                       : fmt::format(
                             "wrote {} elements after the end of {}, the first at {}[{} + {}]",
                             overwritten, of, name, size, first);
    }
  }
  return "";
}

}  // namespace rmsnorm
