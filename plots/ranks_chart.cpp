#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plots/format.hpp"
#include "plots/line_chart.hpp"
#include "plots/ranks.hpp"

namespace rmsnorm::plots {

std::optional<Chart> ranks_chart(const std::vector<RankSum>& sums) {
  constexpr int kHidden = 8192;
  std::map<std::string, std::map<double, double>> times;  // over the bytes
  for (const RankSum& sum : timed_sums(sums, kHidden))
    times[sum.implementation][static_cast<double>(sum.bytes)] = *sum.median_us;
  const std::map<double, double> nccl = times["all_reduce"];
  if (nccl.empty()) return std::nullopt;
  LineChart chart;
  double most = 1;
  const auto add = [&](const char* name, const char* label, Colour colour, double width) {
    ChartLine line{.label = {label}, .points = {}, .colour = colour, .width = width};
    for (const auto& [bytes, us] : times[name]) {
      if (!nccl.contains(bytes)) continue;
      line.points.emplace_back(bytes, nccl.at(bytes) / us);
      most = std::max(most, line.points.back().second);
    }
    chart.lines.push_back(line);
  };
  add("all_reduce", "NCCL", text_colour, 1.3);
  add("torch/one_shot", "torch, one-shot", family_colour, 1.3);
  add("torch/two_shot", "torch, two-shot", accent<1>, 1.8);
  add("librmsnorm", "librmsnorm", accent<0>, 2.4);
  double best = 1;
  for (const auto& [bytes, ratio] : chart.lines.back().points) best = std::max(best, ratio);
  chart.title = fmt::format(
      "With {} ranks, librmsnorm is up to {} times as fast as NCCL's sum and a residual add",
      sums.front().ranks, factor(best));
  chart.subtitle = fmt::format(
      "times the speed of NCCL, rows of {} columns, {}, {} × {}", kHidden, sums.front().dtype,
      sums.front().gpus, sums.front().device);
  chart.x_name = "bytes of a rank's x";
  chart.y = {0, 1.1 * most};
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
