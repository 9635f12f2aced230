#include "docs/site/results_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <tuple>

#include "common/records/row_cost.hpp"
#include "common/records/trace_csv.hpp"
#include "docs/site/markdown.hpp"
#include "docs/site/text.hpp"
#include "plots/format.hpp"
#include "plots/profile.hpp"
#include "plots/select.hpp"

namespace rmsnorm::site {
namespace {

namespace fs = std::filesystem;

/// A cell: what is shown, and what it is sorted by if that is another thing.
struct Cell {
  std::string text;
  std::optional<double> value = {};
};

/// What every table has behind the columns that it is about.
const std::vector<std::string> kProblemColumns = {"regime", "type", "rows", "hidden"};

Cell number(std::optional<double> value, const std::function<std::string(double)>& write) {
  return value ? Cell{plots::without_unit(write(*value)), value} : Cell{"-"};
}

Cell whole(double value) {
  return {fmt::format("{:.0f}", value), value};
}

Cell count(double value) {
  return {fmt::format("{:.6g}", value), value};
}

/// A table whose columns can be sorted, and which shows the rows of one case (theme/site.js). Its
/// caption is HTML.
class Table {
 public:
  /// \param header  of the columns behind the implementation's name
  /// \param folded  of those that are first hidden, behind the operation's
  Table(
      std::string caption, const std::vector<std::string>& header,
      const std::vector<std::string>& folded = {})
      : caption_(std::move(caption)), header_({"implementation"}) {
    for (const auto& part : {header, kProblemColumns})
      header_.insert(header_.end(), part.begin(), part.end());
    columns_ = header_.size();
    header_.push_back("operation");
    header_.insert(header_.end(), folded.begin(), folded.end());
  }

  /// Adds a result, a profile or a count, with the cells of the table's own columns.
  template <class Row>
  void add(const Row& row, std::vector<Cell> cells, const std::vector<Cell>& folded = {}) {
    cells.insert(cells.begin(), {row.implementation});
    cells.insert(
        cells.end(), {{row.regime},
                      {row.dtype},
                      whole(static_cast<double>(row.rows)),
                      whole(static_cast<double>(row.hidden)),
                      {row.operation}});
    cells.insert(cells.end(), folded.begin(), folded.end());
    rows_ += "<tr>";
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const Cell& cell = cells[column];
      if (cell.value) of_numbers_.insert(column);
      // Whole numbers are sorted as they are, measured ones by four digits.
      const int digits = cell.value && *cell.value == std::round(*cell.value) ? 9 : 4;
      const std::string value = cell.value ? fmt::format("{:.{}g}", *cell.value, digits) : "";
      rows_ += value.empty() || value == cell.text ? "<td>" : "<td data-value=\"" + value + "\">";
      rows_ += escape_html(cell.text) + "</td>";
    }
    rows_ += "</tr>\n";
  }

  std::string html() const {
    std::string html =
        "<div class=\"results\">\n"
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"markdownTable sortable\" "
        "data-columns=\"" +
        std::to_string(columns_) + "\">\n<caption>" + caption_ + "</caption>\n<thead><tr>";
    for (std::size_t column = 0; column < header_.size(); ++column)
      html += fmt::format(
          "<th scope=\"col\"{}><button type=\"button\">{}</button></th>",
          of_numbers_.count(column) > 0 ? " class=\"number\"" : "", escape_html(header_[column]));
    return html + "</tr></thead>\n<tbody>\n" + rows_ + "</tbody></table></div>\n</div>\n";
  }

 private:
  std::string caption_;
  std::vector<std::string> header_;
  std::size_t columns_;                    ///< that are not folded
  std::set<std::size_t> of_numbers_ = {};  ///< columns
  std::string rows_;
};

std::string device_of(const std::vector<Result>& results) {
  std::string device = "cpu";
  for (const Result& r : results) {
    if (r.device != "cpu") device = r.device;
  }
  return device;
}

/// The results as a table, with where those of a GPU were measured.
std::string times(const std::vector<Result>& results) {
  const auto on_gpu = plots::only(results, [](const Result& r) { return r.device != "cpu"; });
  Table table(
      escape_html(
          "Measured on " + plots::sources_of(on_gpu, "; ") +
          plots::words_for_mark(results, ". ", "")),
      {"of roof, %", "time, µs", "L2"},
      {"spread, %", "bandwidth, GB/s", "of peak, %", "largest error", "bound", "verdict",
       "version"});
  const auto error = [](double e) { return fmt::format("{:.1e}", e); };
  for (const Result& r : results) {
    const auto of_peak = r.gbps && r.peak_gbps ? std::optional(100 * *r.gbps / *r.peak_gbps)
                                               : std::optional<double>();
    Cell time = number(r.median_us, plots::microseconds);
    time.text += plots::mark_of(r);
    table.add(
        r,
        {number(percent_of_roof(r), plots::percent), time, {r.cache ? to_string(*r.cache) : "-"}},
        {number(r.spread_pct, plots::percent),
         number(r.gbps, plots::gigabytes_per_second),
         number(of_peak, plots::percent),
         number(r.max_error, error),
         number(r.error_bound, error),
         {to_string(r.verdict)},
         {r.version}});
  }
  return table.html();
}

std::string profiles(const std::vector<plots::Profile>& all) {
  std::set<std::string> sources;
  for (const plots::Profile& p : all) sources.insert(plots::source_of(p));
  Table table(
      inline_html(fmt::format("{}", fmt::join(sources, "; ")), {"results", {}, {}, nullptr}),
      {"read per row, bytes", "written, bytes", "from DRAM, bytes", "instructions per row",
       "registers", "occupancy, %"});
  for (const plots::Profile& p : all) {
    table.add(
        p, {whole(p.sectors_read * kSectorBytes / p.rows),
            whole(p.sectors_written * kSectorBytes / p.rows), whole(p.dram_read / p.rows),
            whole(p.instructions / p.rows), whole(p.registers),
            number(p.active_warps, plots::percent)});
  }
  return table.html();
}

std::string counts(const std::vector<TraceRow>& trace) {
  const auto launch_of = [](const TraceRow& r) {
    return std::tie(r.operation, r.implementation, r.regime, r.dtype, r.rows, r.hidden);
  };
  std::set<std::string> sources;
  std::vector<std::pair<const TraceRow*, RowCost>> launches;
  for (const TraceRow& row : trace) {
    sources.insert(fmt::format("commit {}, {}", row.version, row.date));
    if (launches.empty() || launch_of(*launches.back().first) != launch_of(row))
      launches.emplace_back(&row, RowCost{});
    rmsnorm::add(row.count, row.rows, launches.back().second);
  }
  Table table(
      escape_html(fmt::format("Counted by the CPU device, {}", fmt::join(sources, "; "))),
      {"read per row, bytes", "written, bytes", "requests", "wavefronts", "barriers", "shuffles"});
  for (const auto& [row, cost] : launches) {
    table.add(
        *row, {count(cost.read), count(cost.written), count(cost.requests), count(cost.wavefronts),
               count(cost.barriers), count(cost.shuffles)});
  }
  return table.html();
}

}  // namespace

std::vector<ResultsPage> results_pages(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  const auto words = [](const std::string& text) { return html_block("<p>" + text + "</p>\n"); };

  std::vector<ResultsPage> pages = {{"results", "Results", ""}};
  const auto section = [&](const std::string& name, const std::string& title) {
    return html_block(heading(2, section_label("results", name), title));
  };
  // Adds a page of its own, and returns the link to it.
  const auto further = [&](const std::string& name, const std::string& title,
                           const std::string& table) {
    pages.push_back({label_of("results_" + name), "Results: " + title, html_block(table)});
    return "<a href=\"" + pages.back().label + ".html\">" + escape_html(pages.back().title) +
           "</a>";
  };
  std::string measured, parts, peers, counted;
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    if (name.ends_with("-profile")) continue;
    if (name.ends_with("-host") || name.ends_with("-ranks")) continue;  // on the page of peers
    if (name.ends_with("-loads")) continue;    // its tables are on the page about limits
    if (name.ends_with("-machine")) continue;  // its tables are on the page about the machine
    if (name == "mutants" || name == "arithmetic") continue;  // on the page inside the CPU device
    if (name.ends_with("-trace")) {
      counted += section(name, "The CPU device's counts") +
                 words(
                     "What a row costs each implementation, the same on every machine. Its "
                     "problems have fewer rows. " +
                     further(name, "the CPU device's counts", counts(read_trace(file))));
      continue;
    }
    const auto results = plots::load_results(file);
    const std::string device = device_of(results);
    if (name.ends_with("-peers")) {
      peers += section(name, "Other libraries: " + device) +
               words(further(name, "other libraries, " + device, times(results)));
      continue;
    }
    const auto is_sweep = [](const Result& r) { return rmsnorm::is_sweep(r.regime); };
    std::set<std::string> sweeps;
    for (const Result& r : plots::only(results, is_sweep)) sweeps.insert(r.regime);
    const fs::path profile = folder / (name + "-profile.csv");
    const std::string profiled =
        fs::exists(profile) ? profiles(plots::read_profiles(profile)) : std::string();
    // A run of every lesson is on this page; another would make it long.
    if (sweeps.empty()) {
      parts += section(name, "A part of the lessons: " + device) +
               words(further(
                   name, device,
                   times(results) + (profiled.empty() ? "" : "<h2>The profiler's counts</h2>\n") +
                       profiled));
      continue;
    }
    measured += section(name, "Times: " + device) +
                html_block(times(plots::only(results, std::not_fn(is_sweep))));
    std::string links;
    for (const std::string& sweep : sweeps) {
      links += "<li>" +
               further(
                   name + "_" + sweep, replace_all(sweep, "_", " over ") + ", " + device,
                   times(plots::of_regime(results, sweep))) +
               "</li>\n";
    }
    if (!links.empty()) {
      measured +=
          words("More shapes have pages of their own:") + html_block("<ul>\n" + links + "</ul>\n");
    }
    if (!profiled.empty()) {
      measured +=
          section(name + "_profile", "The profiler's counts: " + device) + html_block(profiled);
    }
  }
  pages[0].text =
      words(
          "Everything that was recorded, made of the files in <code>plots/data</code> when this "
          "site was built. A table shows one case at first: choose another one, or everything. A "
          "click on a column's head sorts the table by it. A time is that of a launch. A bandwidth "
          "is what the operation must move at least, in that time: x once and y once for "
          "RMSNorm.") +
      measured + parts + peers + counted;
  return pages;
}

}  // namespace rmsnorm::site
