#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/line_chart.hpp"
#include "plots/machine.hpp"

namespace rmsnorm::plots {
namespace {

/// The part of a line between two x, both included.
ChartLine part_of(const ChartLine& line, const Level& level) {
  ChartLine part = line;
  std::erase_if(part.points, [&](const auto& point) {
    return point.first < static_cast<double>(level.smallest) ||
           point.first > static_cast<double>(level.largest);
  });
  return part;
}

/// TB/s over bytes in flight: the best of those with as many.
ChartLine best_line(const std::vector<MachineRow>& bandwidths) {
  std::map<double, double> best;
  for (const MachineRow& row : bandwidths) {
    double& tbps = best[in_flight_of(row)];
    tbps = std::max(tbps, *row.gbps / 1e3);
  }
  return {.label = {}, .points = {best.begin(), best.end()}, .colour = {}, .width = 2.4};
}

/// What Little's law allows a memory at most, up to the best bandwidth that was measured.
ChartLine law_line(double first, double best_gbps, double sms, double ns) {
  ChartLine law{.label = {}, .points = {}, .colour = {}, .width = 1.2, .dash = "(5,4)"};
  law.marked = false;
  const double last = best_gbps / sms * ns;
  for (double x = first; x < last; x *= std::exp2(0.125))
    law.points.emplace_back(x, x / ns * sms / 1e3);
  law.points.emplace_back(last, best_gbps / 1e3);
  return law;
}

}  // namespace

Chart latency_chart(const std::vector<MachineRow>& rows) {
  const Levels levels = levels_of(rows);
  ChartLine all{.label = {}, .points = {}, .colour = family_colour, .width = 1.3};
  double highest = 0;
  for (const MachineRow& row : rows_of(rows, "latency", "global")) {
    all.points.emplace_back(static_cast<double>(*row.set_bytes), *row.cycles);
    highest = std::max(highest, *row.cycles);
  }
  std::ranges::sort(all.points);

  LineChart chart;
  chart.title = fmt::format(
      "A load takes {:.0f} cycles from L1, {:.0f} from L2, and {:.0f} from DRAM", levels.l1.cycles,
      levels.l2.cycles, levels.dram.cycles);
  chart.subtitle = fmt::format(
      "cycles from a load to the next, which needs its result: one thread, lines of a working set "
      "in a random order, {}",
      rows.front().device);
  chart.x_name = "working set, bytes";
  chart.y = {0, 1.1 * highest};
  chart.lines = {all};
  const Colour colours[] = {accent<2>, accent<1>, accent<0>};
  const std::pair<const char*, const Level&> named[] = {
      {"L1", levels.l1}, {"L2", levels.l2}, {"DRAM", levels.dram}};
  for (std::size_t i = 0; i < std::size(named); ++i) {
    ChartLine line = part_of(all, named[i].second);
    line.label = {fmt::format("{}, {:.0f} ns", named[i].first, named[i].second.ns)};
    line.colour = colours[i];
    line.width = 2.4;
    chart.lines.push_back(line);
  }
  return draw(std::move(chart));
}

Chart in_flight_chart(const std::vector<MachineRow>& rows) {
  const double sms = sms_of(rows.front().device);
  const Levels levels = levels_of(rows);
  const Reach of_dram = reach_of(rows, "dram");
  LineChart chart;
  chart.title = fmt::format(
      "{} in flight on each SM suffice for {:.0f} % of DRAM's bandwidth; Little's law asks for "
      "{} at least",
      kibibytes(in_flight_of(of_dram.fewest)), kNearlyBest,
      kibibytes(*of_dram.best.gbps / sms * levels.dram.ns));
  chart.subtitle = fmt::format(
      "TB/s, all SMs read, {}; dashed: what Little's law allows if a load takes as long as one "
      "that is alone",
      rows.front().device);
  chart.x_name = "bytes in flight, for each SM";
  const std::tuple<const char*, const char*, double, Colour> memories[] = {
      {"l2", "L2", levels.l2.ns, accent<1>}, {"dram", "DRAM", levels.dram.ns, accent<0>}};
  double highest = 0;
  for (const auto& [memory, label, ns, colour] : memories) {
    const double best = *reach_of(rows, memory).best.gbps;
    highest = std::max(highest, best);
    ChartLine line = best_line(rows_of(rows, "bandwidth", memory));
    ChartLine law = law_line(line.points.front().first, best, sms, ns);
    line.label = {label};
    line.colour = law.colour = colour;
    chart.lines.push_back(law);
    chart.lines.push_back(line);
  }
  chart.y = {0, 1.06 * highest / 1e3};
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
