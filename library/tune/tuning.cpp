#include "library/tune/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/records/csv_fields.hpp"

namespace rmsnorm::tune {
namespace {

using kernels::ForwardShape;
using kernels::Kind;

constexpr auto for_each_field = [](auto& p, auto&& visit) {
  visit("device", p.device), visit("operation", p.operation);
  visit("element_bytes", p.element_bytes), visit("vectors", p.vectors), visit("kind", p.kind);
  visit("threads", p.threads), visit("thread_vectors", p.thread_vectors);
  visit("cluster", p.cluster), visit("gain", p.gain), visit("driver", p.driver);
  visit("version", p.version), visit("date", p.date);
};

/// What the lines ascend by.
auto key_of(const Plan& plan) {
  return std::tie(plan.device, plan.element_bytes, plan.vectors);
}

}  // namespace

const char* text_of(Kind kind) {
  return kind == Kind::aligned     ? "aligned"
         : kind == Kind::cluster   ? "cluster"
         : kind == Kind::long_rows ? "long_rows"
                                   : "unaligned";
}

std::string text_of(const ForwardShape& shape) {
  const std::string blocks = shape.cluster == 1 ? "" : fmt::format("{} x ", shape.cluster);
  return fmt::format(
      "{}, {}{} threads x {} vectors", text_of(shape.kind), blocks, shape.threads, shape.vectors);
}

std::vector<ForwardShape> candidates(int vectors, bool has_clusters) {
  std::vector<ForwardShape> shapes = {kernels::shape_by_formula(vectors, has_clusters)};
  const auto add = [&](const ForwardShape& shape) {
    const bool is_known = std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
    if (is_for(shape, vectors) && !is_known) shapes.push_back(shape);
  };
  for (int lanes = 4; lanes <= 32 && lanes < 2 * vectors; lanes *= 2) {
    add({Kind::aligned, lanes, 2, 1});
  }
  for (const int each : {1, 2, 3, 4}) {  // vectors that a thread gets
    add({Kind::aligned, kernels::threads_for(vectors, each), std::max(2, each), 1});
  }
  // A block has enough to do, and not too much. Besides, norms to 8 bits share these shapes, and
  // keep a row in the registers of a block alone.
  if (vectors <= 2048) return shapes;
  for (const int threads : {256, 512, 768, 1024}) add({Kind::long_rows, threads, 4, 1});
  for (int blocks = 2; has_clusters && blocks <= kernels::kMaxCluster; ++blocks) {
    for (const int each : {4, 8}) add(kernels::cluster_shape(vectors, each, blocks));
  }
  return shapes;
}

Choice choose(const std::vector<std::vector<double>>& times) {
  Choice best{0, 1};
  for (std::size_t i = 1; i < times.size(); ++i) {
    double logarithms = 0;
    double least = HUGE_VAL;
    for (std::size_t rows = 0; rows < times[i].size(); ++rows) {
      const double gain = times[0][rows] / times[i][rows];
      logarithms += std::log(gain);
      least = std::min(least, gain);
    }
    const double gain = std::exp(logarithms / static_cast<double>(times[i].size()));
    if (least > 1 / kWorthwhile && gain >= kWorthwhile && gain > best.gain) best = {i, gain};
  }
  return best;
}

std::vector<Plan> read_plans(const std::filesystem::path& file) {
  return csv::read_rows<Plan>(file, for_each_field);
}

void write_plans(const std::filesystem::path& file, const std::vector<Plan>& plans) {
  csv::write_rows(file, plans, for_each_field);
}

void replace(std::vector<Plan>& plans, const Plan& plan) {
  std::erase_if(plans, [&](const Plan& other) { return key_of(other) == key_of(plan); });
  if (plan.kind.empty()) return;
  const auto is_before = [](const Plan& a, const Plan& b) { return key_of(a) < key_of(b); };
  plans.insert(std::upper_bound(plans.begin(), plans.end(), plan, is_before), plan);
}

}  // namespace rmsnorm::tune
