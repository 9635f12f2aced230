#include "plots/chart.hpp"

#include <fmt/format.h>
#include <gnuplot-iostream.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <ios>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "common/base/files.hpp"

namespace rmsnorm::plots {
namespace {

namespace fs = std::filesystem;

// Every colour of text or of a line has a contrast of at least 4.5 to the background.
const Theme kLight = {
    .background = "#ffffff",
    .text = "#1f2933",
    .muted = "#5b6775",
    .grid = "#dfe3e8",
    .bar = "#1f6fb5",
    .variant = "#697583",
    .peak = "#b8323f",
    .copy = "#1f2933",
    .lines =
        {"#0b6bbf", "#b35900", "#1b7f3b", "#7b4fbf", "#0a7884", "#b0308a", "#6b6c00", "#3d4f8f",
         "#8a5a3c"},
};

const Theme kDark = {
    .background = "#0d1117",
    .text = "#e3e8ee",
    .muted = "#9aa7b5",
    .grid = "#353c45",
    .bar = "#58a6e8",
    .variant = "#8592a0",
    .peak = "#ff8087",
    .copy = "#e3e8ee",
    .lines =
        {"#5aa9f0", "#f0a04b", "#57c785", "#b79af5", "#3fc3cf", "#f27fc8", "#c3c350", "#9fb2f0",
         "#d0a184"},
};

/// One of a chart's files, and where gnuplot writes it until both are known to be whole.
struct Output {
  fs::path file;
  fs::path partial;
  const Theme* theme;
};

fs::path with_suffix(fs::path path, std::string_view suffix) {
  return path += suffix;
}

std::vector<Output> outputs_of(const fs::path& stem) {
  const fs::path light = with_suffix(stem, ".svg");
  const fs::path dark = with_suffix(stem, "-dark.svg");
  return {
      {light, with_suffix(light, ".partial"), &kLight},
      {dark, with_suffix(dark, ".partial"), &kDark}};
}

/// Removes the files on its list when it goes out of scope, however that happens.
class Cleanup {
 public:
  explicit Cleanup(std::vector<fs::path> files) : files_(std::move(files)) {}
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  ~Cleanup() {
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
  }

 private:
  std::vector<fs::path> files_;
};

/// In single quotes; the shell and gnuplot differ in how they write a quote inside.
std::string quoted(const std::string& text, std::string_view inner_quote) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += inner_quote;
    } else {
      result += c;
    }
  }
  return result + "'";
}
std::string quoted_for_shell(const fs::path& path) {
  return quoted(path.string(), "'\\''");
}
std::string quoted_for_gnuplot(const fs::path& path) {
  return quoted(path.string(), "''");
}

void write_script(const Chart& chart, const std::vector<Output>& outputs, const fs::path& script) {
  // ">FILE" makes gnuplot-iostream write the script to a file. Through a pipe, which is its usual
  // way, gnuplot's exit status would be lost in the destructor.
  Gnuplot gp(">" + script.string());
  gp << "set encoding utf8\n";
  for (const Series& series : chart.data) {
    gp << "$" << series.name << " << e\n";
    gp.send1d(series.points);  // ends with a line "e"
  }
  for (const Output& output : outputs) {
    gp << "reset\nset terminal svg size " << kCanvasWidth << "," << kCanvasHeight
       << " dynamic enhanced font 'DejaVu Sans,12'\nset output "
       << quoted_for_gnuplot(output.partial) << "\n"
       << chart.commands(*output.theme) << "\nunset output\n";
  }
  gp.flush();
  if (!gp) throw std::ios_base::failure("write error");
}

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

void run_gnuplot(const fs::path& script, const fs::path& messages) {
  // -d: whatever the user's own gnuplot settings are, the charts come out the same.
  const std::string command =
      fmt::format("gnuplot -d {} 2> {}", quoted_for_shell(script), quoted_for_shell(messages));
  const int status = std::system(command.c_str());
  const std::string said = read_file(messages);
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

/// A reader's computer may not have DejaVu Sans: without a fallback, browsers take a serif font.
void name_fallback_fonts(std::string& svg) {
  constexpr std::string_view kOnly = "font-family=\"DejaVu Sans\"";
  constexpr std::string_view kMore = "font-family=\"DejaVu Sans, Verdana, sans-serif\"";
  for (std::size_t at = 0; (at = svg.find(kOnly, at)) != std::string::npos; at += kMore.size()) {
    svg.replace(at, kOnly.size(), kMore);
  }
}

void check_and_finish(const Output& output) {
  std::string content = fs::exists(output.partial) ? read_file(output.partial) : "";
  const std::size_t end = content.find_last_not_of(" \t\r\n") + 1;
  if (!content.substr(0, end).ends_with("</svg>"))
    throw std::runtime_error(fmt::format("gnuplot did not finish {}", output.file.string()));
  name_fallback_fonts(content);
  write_file(output.partial, content);
}

void make_folder_of(const fs::path& stem) {
  if (!stem.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(stem.parent_path(), error);
  if (error) {
    throw std::runtime_error(
        fmt::format("cannot make the folder {}: {}", stem.parent_path().string(), error.message()));
  }
}

}  // namespace

void render(const Chart& chart, const fs::path& stem) {
  const std::vector<Output> outputs = outputs_of(stem);
  const fs::path script = with_suffix(stem, ".gp.partial");
  const fs::path messages = with_suffix(stem, ".log.partial");
  std::vector<fs::path> temporary = {script, messages};
  for (const Output& output : outputs) temporary.push_back(output.partial);
  const Cleanup cleanup(temporary);

  make_folder_of(stem);
  // An empty file first: it fails with the system's reason where gnuplot-iostream has none to give.
  write_file(script, "");
  try {
    write_script(chart, outputs, script);
  } catch (const std::ios_base::failure& error) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", script.string(), error.what()));
  }
  run_gnuplot(script, messages);
  for (const Output& output : outputs) check_and_finish(output);
  for (const Output& output : outputs) {
    std::error_code error;
    fs::rename(output.partial, output.file, error);
    if (error) {
      throw std::runtime_error(
          fmt::format("cannot write {}: {}", output.file.string(), error.message()));
    }
  }
}

}  // namespace rmsnorm::plots
