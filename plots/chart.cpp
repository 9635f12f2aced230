#include "plots/chart.hpp"

#include <fmt/format.h>
#include <gnuplot-iostream.h>
#include <sys/wait.h>

#include <boost/algorithm/string/replace.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "common/base/files.hpp"
#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

namespace fs = std::filesystem;

/// A folder that goes away with all that is in it, however that happens.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& path) : path_(path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) {
      throw std::runtime_error(
          fmt::format("cannot make the folder {}: {}", path.string(), error.message()));
    }
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// A drawing of a chart: where it stands in a picture, what gnuplot is told before, and the file.
struct Drawing {
  const Theme* theme;
  double left;   ///< free, as a part of the picture's width
  double width;  ///< likewise
  std::string terminal;
  const char* file;
};

double height_of(const Chart& chart) {
  return chart.height + height_of_title(chart);
}

/// The script, which writes the drawings where gnuplot runs.
void write_script(
    const Chart& chart, const fs::path& script, const std::vector<Drawing>& drawings) {
  // ">FILE" makes gnuplot-iostream write the script to a file. Through a pipe, which is its usual
  // way, gnuplot's exit status would be lost in the destructor.
  Gnuplot gp(">" + script.string());
  gp << "set encoding utf8\n";
  for (const Series& series : chart.data) {
    gp << "$" << series.name << " << e\n";
    gp.send1d(series.points);  // ends with a line "e"
  }
  for (const Drawing& drawing : drawings) {
    gp << "reset\n"
       << fmt::format("X = {}\nW = {}\nH = {:.3f}\n", drawing.left, drawing.width, height_of(chart))
       << drawing.terminal << " enhanced font 'DejaVu Sans,12'\nset output '" << drawing.file
       << "'\n"
       << draw_title(chart, *drawing.theme) << chart.commands(*drawing.theme) << "\nunset output\n";
  }
  gp.flush();
  if (!gp) throw std::runtime_error(fmt::format("cannot write {}", script.string()));
}

/// In single quotes, for the shell.
std::string quoted(const fs::path& path) {
  return "'" + boost::replace_all_copy(path.string(), "'", "'\\''") + "'";
}

std::string last_line(const std::string& text) {
  const std::string lines = boost::trim_right_copy(text);
  return lines.substr(lines.rfind('\n') + 1);
}

void run_gnuplot(const fs::path& script) {
  // -d: whatever the user's own gnuplot settings are, the charts come out the same.
  const std::string command = fmt::format(
      "cd {} && gnuplot -d {} 2> messages", quoted(script.parent_path()),
      quoted(script.filename()));
  const int status = std::system(command.c_str());
  const std::string said = read_file(script.parent_path() / "messages");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    std::fputs(said.c_str(), stderr);  // warnings
    return;
  }
  constexpr int kCommandNotFound = 127;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCommandNotFound) {
    throw std::runtime_error("gnuplot was not found: install gnuplot (Debian: gnuplot-nox)");
  }
  throw std::runtime_error(
      fmt::format("gnuplot failed: {}", said.empty() ? "it gave no reason" : last_line(said)));
}

/// What a screen reader says, and a browser where the mouse rests: the chart's own title.
void name_chart(std::string& svg, const Chart& chart) {
  const auto put = [&](const std::string& tag, std::string text) {
    boost::replace_all(text, "&", "&amp;");
    boost::replace_all(text, "<", "&lt;");
    boost::replace_all(text, ">", "&gt;");
    const std::size_t begin = svg.find("<" + tag + ">") + tag.size() + 2;
    svg.replace(begin, svg.find("</" + tag + ">") - begin, text);
  };
  put("title", chart.title);
  put("desc", chart.subtitle);
  // gnuplot names each part after the command that drew it, which a browser would show.
  constexpr std::string_view kEnd = "</title>";
  const std::size_t own = svg.find(kEnd) + kEnd.size();
  for (std::size_t at = own; (at = svg.find("<title>", at)) != std::string::npos;)
    svg.erase(at, svg.find(kEnd, at) + kEnd.size() - at);
}

/// The drawing as it is to be saved. \throws std::runtime_error if gnuplot did not finish it
std::string finished(const fs::path& drawn, const Chart& chart) {
  std::string svg = fs::exists(drawn) ? read_file(drawn) : "";
  if (!boost::trim_right_copy(svg).ends_with("</svg>"))
    throw std::runtime_error(fmt::format("gnuplot did not finish {}", drawn.string()));
  // A reader's computer may not have DejaVu Sans: without a fallback, browsers take a serif font.
  boost::replace_all(svg, "\"DejaVu Sans\"", "\"DejaVu Sans, Verdana, sans-serif\"");
  name_chart(svg, chart);
  return svg;
}

}  // namespace

void render(const Chart& chart, const fs::path& stem) {
  const WorkFolder folder(stem.string() + ".partial");
  const std::string svg =
      fmt::format("set terminal svg size {},{} dynamic", kCanvasWidth, height_of(chart));
  write_script(
      chart, folder / "script",
      {{&kLight, 0, 1, svg, "light.svg"}, {&kDark, 0, 1, svg, "dark.svg"}});
  run_gnuplot(folder / "script");
  const std::string light = finished(folder / "light.svg", chart);
  const std::string dark = finished(folder / "dark.svg", chart);
  write_file(stem.string() + ".svg", light);
  write_file(stem.string() + "-dark.svg", dark);
}

void render_card(const Chart& chart, const std::vector<std::string>& words, const fs::path& png) {
  const WorkFolder folder(png.string() + ".partial");
  constexpr double kWide = 1200, kHigh = 630;  // as those who show links want it
  const double scale = kHigh / height_of(chart);
  const double width = kCanvasWidth * scale / kWide;
  const Text first{
      .text = "",
      .at = {-0.9 * kCanvasWidth * (1 - width) / width, 0.55 * height_of(chart)},
      .colour = kLight.accents[0],
      .size = 19,
      .bold = true};
  const std::string terminal = fmt::format(
      "{}set terminal pngcairo size {},{} fontscale {} linewidth {}", draw_lines(words, first, 26),
      kWide, kHigh, 0.75 * scale, scale);
  write_script(chart, folder / "script", {{&kLight, 1 - width, width, terminal, "card.png"}});
  run_gnuplot(folder / "script");
  fs::rename(folder / "card.png", png);
}

}  // namespace rmsnorm::plots
