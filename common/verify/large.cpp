#include "common/verify/large.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/device.hpp"
#include "common/base/packed.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/interface/sampling.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/tensors/guarded_tensor.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {
namespace {

/// Beyond 2^32 elements; beyond 2^31; and more than the grid's y and 16 bits can count.
constexpr int kLargeRows[] = {8264705, 4194305, 70001};
/// No powers of two, so that 2^32 elements are no whole rows; and one, for kernels of that alone.
constexpr int kLargeHidden[] = {520, 768, 1024};
/// Where few blocks have all rows, and each would have too many of those: longer ones, which are
/// fewer. Beyond 2^32 elements, too.
constexpr Shape kLongRows = {598600, 7176};
/// Where a kernel shows which rows its last block writes: less than 16 bits can count.
constexpr int kRowsBefore = 30001;
/// Where 32 bits with a sign are too few for the elements, and those without are not.
constexpr int kRowsBetween = 5000011;
/// The device has so many multiprocessors that a block of a grid that fills it has no more rows.
constexpr int kManyRowsOfBlock = 256;
/// Of blocks that have more than this, the last one alone runs.
constexpr int kRowsOfBlock = 64;
/// Of the bytes that are repeated: a prime, so that no power of two leads to the same bytes.
constexpr std::size_t kPages = 4093;
constexpr std::uint64_t kSeed = 1;

/// A tensor that takes little memory. \throws std::bad_alloc
void* make(
    const TensorSpec& tensor, Dtype dtype, std::size_t elements, const Sizes& sizes,
    bool is_poison) {
  const std::size_t size = kPages * Sample::kPage / bytes_of(dtype);
  const GuardedTensor numbers(Memory::host, dtype, size, 1, 0);
  const Content content = is_poison ? Content::poison : content_of(tensor);
  numbers.fill(content, kSeed ^ tensor.salt, length_for_fill(tensor, sizes), Content::poison);
  const auto* const begin = static_cast<const std::byte*>(numbers.data());
  void* const data =
      repeat_in_device_memory(elements * bytes_of(dtype), {begin, begin + kPages * Sample::kPage});
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

/// Elements that a row has in a tensor, or in each of its pieces.
std::size_t size_of_row(const TensorSpec& tensor, Sizes sizes) {
  sizes.rows = 1;
  return size_of(tensor, sizes) / pieces_of(tensor, sizes);
}

/// One launch, of which some blocks run.
class Launch {
 public:
  Launch(const Implementation& implementation, const Problem& sizes)
      : implementation_(implementation), operation_(*implementation.operation), after_(sizes) {
    set_multiprocessors(sizes.rows / kManyRowsOfBlock + 1);
    before_ = after_;
    const Types types = types_of(sizes);
    std::vector<KnownMemory> known;
    const auto add = [&](const char* name, void* data, std::size_t bytes, int element_bytes,
                         const TensorSpec& tensor) {
      known.push_back({name, data, bytes, element_bytes, is_read(tensor), is_written(tensor)});
    };
    for (std::size_t i = 0; i < operation_.tensors.size(); ++i) {
      const TensorSpec& tensor = operation_.tensors[i];
      if (!is_there(tensor, types)) continue;
      const Dtype dtype = dtype_of(tensor, types);
      const int pieces = pieces_of(tensor, sizes);
      const std::size_t elements = size_of(tensor, sizes) / pieces;
      const bool is_output = tensor.role == Role::output;
      // All pieces of a tensor are one.
      after_.tensors[i] = make(tensor, dtype, elements, sizes, is_output);
      before_.tensors[i] = tensor.role == Role::in_place
                               ? make(tensor, dtype, elements, sizes, false)
                               : after_.tensors[i];
      add(tensor.name, after_.tensors[i], elements * bytes_of(dtype), bytes_of(dtype), tensor);
    }
    constexpr TensorSpec kWorkspace = {"workspace", Role::output, {side::rows}, Elements::fp32};
    if (const std::size_t bytes = implementation.workspace_bytes(sizes); bytes > 0) {
      const std::size_t floats = (bytes + sizeof(float) - 1) / sizeof(float);
      after_.workspace = make(kWorkspace, Dtype::fp32, floats, sizes, true);
      add("workspace", after_.workspace, floats * sizeof(float), sizeof(float), kWorkspace);
    }
    start_watching(std::move(known));
    start_sampling(static_cast<std::uint64_t>(sizes.rows / kRowsOfBlock));
    error_ = implementation.launch(after_, nullptr);
    for (const cudaError_t later : {cudaGetLastError(), cudaDeviceSynchronize()}) {
      if (error_ == cudaSuccess) error_ = later;
    }
    sample_ = stop_sampling();
    stop_watching();
    hazards_ = take_hazards();
  }

  /// Of the launch and of what it stored; "" if nothing is wrong.
  std::string complaint() const {
    if (!hazards_.empty()) return fmt::format("{}", fmt::join(hazards_, "\n  "));
    if (error_ != cudaSuccess && sample_.obstacle.empty()) {
      return fmt::format("the launch failed: {}", cudaGetErrorString(error_));
    }
    if (!obstacle().empty()) return "";
    for (const std::int64_t row : rows_stored()) {
      std::optional<Mismatch> mismatch = mismatch_in(row);
      if (!mismatch || !has_stored(*mismatch, row) || may_lack_a_block(*mismatch)) continue;
      mismatch->row = row;
      return to_sentence(*mismatch);
    }
    return "";
  }

  /// Why neither what was stored nor what was not says anything; or "".
  std::string obstacle() const {
    if (!sample_.obstacle.empty()) return sample_.obstacle;
    return sample_.kernels == 0 ? "it launches no kernel" : "";
  }

  /// Whether some row was stored, of what has a value, and the last one.
  bool has_row() const {
    const std::set<std::int64_t> rows = rows_stored();
    return std::ranges::any_of(rows, [&](auto row) { return !mismatch_in(row); });
  }
  bool has_last_row() const { return rows_stored().contains(after_.rows - 1); }

  /// Whether the grid has grown in proportion to the rows.
  bool has_grown_from(const Launch& small) const {
    const double factor = static_cast<double>(after_.rows) / small.after_.rows;
    const double expected = factor * static_cast<double>(small.sample_.blocks);
    return std::abs(static_cast<double>(sample_.blocks) - expected) <= factor;
  }

 private:
  std::optional<Mismatch> mismatch_in(std::int64_t row) const {
    return operation_
        .compare_on_host(
            row_of(before_, row), row_of(after_, row),
            likely_depth(implementation_.sum_depth(after_)))
        .mismatch;
  }

  /// Whether a kernel may have read what no block of the kernel before has written, as none of the
  /// right number ran: NaN, or what was in place before.
  bool may_lack_a_block(const Mismatch& mismatch) const {
    const auto& tensors = operation_.tensors;
    const bool is_in_place = std::ranges::count(tensors, Role::in_place, &TensorSpec::role) > 0;
    return sample_.kernels > 1 && (is_in_place || std::isnan(mismatch.got));
  }

  /// Whether the element of a row's problem that is not as expected was stored.
  bool has_stored(const Mismatch& mismatch, std::int64_t row) const {
    const auto& tensors = operation_.tensors;
    const auto at = std::ranges::find_if(tensors, [&](const TensorSpec& tensor) {
      return tensor.name == std::string_view(mismatch.tensor);
    });
    const auto bytes = static_cast<std::size_t>(bytes_of(dtype_of(*at, types_of(after_))));
    const auto tensor = static_cast<int>(at - tensors.begin());
    const auto* const begin = row_of(after_, row).as<std::byte>(tensor);
    return sample_.has_stored(begin + mismatch.index * static_cast<std::int64_t>(bytes), bytes);
  }

  /// The same problem, of one row. What is a sum over all rows is not wanted.
  Problem row_of(Problem p, std::int64_t row) const {
    const Types types = types_of(p);
    for (std::size_t i = 0; i < operation_.tensors.size(); ++i) {
      const TensorSpec& tensor = operation_.tensors[i];
      const bool is_chosen = !std::string_view(tensor.places).empty();  // by a row's integers
      if (is_written(tensor) && !has_rows(tensor) && !is_chosen) p.tensors[i] = nullptr;
      if (!has_rows(tensor) || p.tensors[i] == nullptr) continue;
      const auto elements = static_cast<std::int64_t>(size_of_row(tensor, p));
      p.tensors[i] =
          p.as<std::byte>(static_cast<int>(i)) + row * elements * bytes_of(dtype_of(tensor, types));
    }
    p.rows = 1;
    return p;
  }

  /// The rows of which some element was stored.
  std::set<std::int64_t> rows_stored() const {
    constexpr auto kPage = static_cast<std::int64_t>(Sample::kPage);
    std::set<std::int64_t> rows;
    const Types types = types_of(after_);
    for (std::size_t i = 0; i < operation_.tensors.size(); ++i) {
      const TensorSpec& tensor = operation_.tensors[i];
      if (!is_written(tensor) || !is_matrix(tensor)) continue;
      const auto row_bytes = static_cast<std::int64_t>(
          size_of_row(tensor, after_) * bytes_of(dtype_of(tensor, types)));
      const auto begin = reinterpret_cast<std::intptr_t>(after_.tensors[i]);
      for (const auto& [page, stored] : sample_.stored) {
        const std::int64_t first = static_cast<std::int64_t>(page) - begin;
        const std::int64_t end = std::min(first + kPage, after_.rows * row_bytes);
        for (std::int64_t at = std::max<std::int64_t>(first, 0); at < end; ++at) {
          if (!stored[static_cast<std::size_t>(at - first)]) continue;
          rows.insert(rows.end(), at / row_bytes);
          at = (at / row_bytes + 1) * row_bytes - 1;  // on with the next row
        }
      }
    }
    return rows;
  }

  const Implementation& implementation_;
  const Operation& operation_;
  Problem before_;
  Problem after_;
  cudaError_t error_ = cudaSuccess;
  Sample sample_;
  std::vector<std::string> hazards_;
};

/// Whether the operation has such columns, and the implementation supports the problem.
bool supports(const Implementation& implementation, const Problem& p) {
  return implementation.operation->takes(p.hidden) && implementation.unsupported(p).empty();
}

/// The problem of these types, and about so many rows.
Problem problem_of(const Implementation& implementation, const Types& types, Shape shape) {
  Problem p = problem_without_tensors(*implementation.operation, {.types = types});
  p.hidden = shape.hidden;
  p.rows = shape.rows / lines_of_row(*implementation.operation, p);
  return p;
}

/// The largest problem of some that it supports.
std::optional<Problem> largest(const Implementation& implementation, const Types& types) {
  for (const int rows : kLargeRows) {
    for (const int hidden : kLargeHidden) {
      const Problem p = problem_of(implementation, types, {rows, hidden});
      if (supports(implementation, p)) return p;
    }
  }
  return std::nullopt;
}

/// The verdict, in this process.
LargeResult run(const Implementation& implementation, const Problem& large) {
  Problem before = large;
  before.rows = kRowsBefore;
  const Launch small(implementation, before);
  // Where a grid has as many blocks as there may be, each does several of the fewer rows; and a
  // product of sizes may have come back to a small number where there are most.
  Problem between = large;
  between.rows = std::min(large.rows, kRowsBetween);
  for (const Problem& p : {before, between}) {
    if (!supports(implementation, p) || p.rows == large.rows) continue;
    const std::string complaint =
        p.rows == before.rows ? small.complaint() : Launch(implementation, p).complaint();
    if (complaint.empty()) continue;
    return {LargeResult::Verdict::wrong, "", fmt::format("with {} rows, {}", p.rows, complaint)};
  }
  const Launch launch(implementation, large);
  if (std::string complaint = launch.complaint(); !complaint.empty()) {
    return {LargeResult::Verdict::wrong, "", std::move(complaint)};
  }
  if (std::string obstacle = launch.obstacle(); !obstacle.empty()) {
    return {LargeResult::Verdict::none, "", std::move(obstacle)};
  }
  const bool has_last = supports(implementation, before) && small.obstacle().empty() &&
                        small.has_last_row() && launch.has_grown_from(small);
  if (has_last && !launch.has_last_row()) {
    return {
        LargeResult::Verdict::wrong, "",
        fmt::format(
            "row {} was not written: the last blocks do that where there are {} rows",
            large.rows - 1, kRowsBefore)};
  }
  if (!launch.has_row()) {
    return {LargeResult::Verdict::none, "", "its blocks store no row that can be judged"};
  }
  return {LargeResult::Verdict::right};
}

std::string name_of(const Problem& p) {
  const Types types = types_of(p);
  const std::string of_types = types == Types{} ? "" : ", " + to_string(types);
  return fmt::format("{} x {}{}{}", p.rows, p.hidden, of_types, kFewBlocks);
}

/// The same, also where few blocks have all rows.
LargeResult run_one_of(const Implementation& implementation, const Problem& large) {
  LargeResult found = run(implementation, large);
  found.where = name_of(large);
  const Problem of_long_rows = problem_of(implementation, types_of(large), kLongRows);
  if (found.why == kTooMuchToDo && supports(implementation, of_long_rows)) {
    found = run(implementation, of_long_rows);
    found.where = name_of(of_long_rows);
  }
  return found;
}

}  // namespace

LargeTrial::LargeTrial(
    const Implementation& implementation, const Types& types, std::uint64_t steps) {
  const std::optional<Problem> large = largest(implementation, types);
  if (!large) {
    result_ = {LargeResult::Verdict::unsupported, "a problem of many rows", "it supports none"};
    return;
  }
  result_ = {.where = name_of(*large), .why = "the system gives no process for it"};
  copy_ = ProcessCopy::start([&] {
    const StepLimit limit(steps, [](const std::string&) { raise(SIGXCPU); });
    say_before_crash("");
    LargeResult found;
    try {
      found = run_one_of(implementation, *large);
    } catch (const std::exception& error) {
      found = {.where = result_.where, .why = error.what()};
    }
    Packed packed;
    packed.put(found.verdict, found.where, found.why);
    return packed.bytes();
  });
}

LargeResult LargeTrial::finish() {
  if (copy_ == nullptr) return result_;
  const ProcessCopy::Ended ended = copy_->finish();
  if (ended.is_done) {
    Packed packed(ended.result);
    result_.verdict = packed.take<LargeResult::Verdict>();
    result_.where = packed.take<std::string>();
    result_.why = packed.take<std::string>();
  } else if (ended.signal == SIGXCPU) {
    result_.why = "it takes too long";
  } else if (ended.signal != 0) {
    result_.why = fmt::format("its process was ended: {}", strsignal(ended.signal));
  } else {
    result_.verdict = LargeResult::Verdict::wrong;
    result_.why = ended.printed.empty() ? "it ended the program" : ended.printed;  // of a crash
  }
  return result_;
}

}  // namespace rmsnorm
