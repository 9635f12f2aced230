#pragma once
/// \file
/// What the site has: its lessons, its other pages in their order, its figures and charts, and how
/// a page shows them.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "common/contract/regime.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {

namespace fs = std::filesystem;

/// A lesson, as it is registered.
struct Lesson {
  std::string slug;              ///< "04_warp_reduce"
  std::string number;            ///< "04"
  std::string label;             ///< of its page
  std::string title;             ///< "Lesson 04: Warp reduce"
  std::string idea;              ///< one sentence
  std::string starts_from = {};  ///< the slug of the lesson that it changes; "": the one before
};

/// What comes before the first lesson and after the last.
inline const Lesson kStart{"", "", "index", "Start", "What this is, and how to run it"};
inline const Lesson kYourTurn{
    "", "", "your_turn_gated_norm", "Your turn: Gated norm", "A kernel of your own, to goals"};

inline std::vector<Lesson> read_lessons(const fs::path& file) {
  std::vector<Lesson> lessons;
  for (const std::string& line : split_lines(read_file(file))) {
    std::istringstream fields(line);
    std::string slug, title, idea, starts_from;
    for (std::string* field : {&slug, &title, &idea, &starts_from}) {
      std::getline(fields, *field, '\t');
    }
    const std::string number = slug.substr(0, 2);
    lessons.push_back(
        {slug, number, "lesson_" + slug, "Lesson " + number + ": " + title, idea, starts_from});
  }
  return lessons;
}

/// A page that is made of a file of the repository.
struct FilePage {
  const char* file;
  const char* label;
  const char* next = nullptr;  ///< where a reader goes from there; null: to the page behind it
};

/// In the order of the tree, behind the lessons.
inline constexpr FilePage kFilePages[] = {
    {"lessons/gated_norm/README.md", "your_turn_gated_norm"},
    {"lessons/layer_norm/README.md", "your_turn_layer_norm"},
    {"lessons/softmax/README.md", "your_turn_softmax", "production_kernels"},
    {"docs/machine.md", "machine"},
    {"docs/method.md", "method"},
    {"plots/README.md", "reading_the_charts"},
    {"docs/what_limits_a_norm.md", "what_limits_a_norm"},
    {"docs/read_a_profile.md", "read_a_profile"},
    {"docs/one_page.md", "one_page"},
    {"docs/peers.md", "peers"},
    {"library/README.md", "librmsnorm"},
    {"library/kernels/README.md", "librmsnorm_kernels"},
    {"docs/cpu_device.md", "cpu_device"},
    {"docs/cpu_device_inside.md", "cpu_device_inside"},
    {"docs/any_program.md", "any_program"},
    {"common/cpu_device/README.md", "cpu_device_component"},
    {"docs/glossary.md", "glossary"},
    {"docs/production_kernels.md", "production_kernels"},
    {"docs/going_further.md", "going_further"},
    {"docs/contributing.md", "contributing", "index"},
};

/// A figure that one can use: docs/interactive/NAME.html.
struct Interactive {
  const char* name;
  const char* title;
  const char* lessons;  ///< the numbers of those that link to it
};

inline constexpr Interactive kInteractives[] = {
    {"ladder", "Try it: thread by thread", "02 03 04 05 06 07 08"},
    {"coalescing", "Try it: sectors and banks", "02 03 06"},
};

/// What the charts' names begin with, in the order of the page of all charts: the ladder, the times
/// of each regime, and then the others.
inline std::vector<std::string> chart_beginnings() {
  std::vector<std::string> all = {"ladder"};
  for (const Regime& regime : regimes()) all.push_back("progression_" + std::string(regime.name));
  for (const char* other :
       {"lesson_", "sweep_rows", "sweep_hidden", "error", "machine_latency", "machine_in_flight",
        "bytes_in_flight", "roofline", "peers_forward", "peers_decode", "peers_other"})
    all.emplace_back(other);
  return all;
}

inline std::size_t place_of_chart(const std::string& name) {
  static const std::vector<std::string> kBeginnings = chart_beginnings();
  const auto is_its = [&](const std::string& begin) { return name.starts_with(begin); };
  return std::ranges::find_if(kBeginnings, is_its) - kBeginnings.begin();
}

/// The HTML of a picture that exists twice, for a light and a dark page; wide ones scroll.
inline std::string figure(
    const std::string& light, const std::string& dark, const std::string& alt) {
  const auto picture = [&](const std::string& file, const char* theme) {
    return fmt::format(
        "<img class=\"only-{}\" loading=\"lazy\" src=\"{}\" alt=\"{}\">", theme, file,
        escape_html(alt));
  };
  return "<figure class=\"scroll\" tabindex=\"0\">" + picture(light, "light") +
         picture(dark, "dark") + "</figure>";
}

/// What sets formulas, before the first of a page.
inline constexpr const char* kFormulas =
    "<link rel=\"stylesheet\" href=\"katex/katex.min.css\">\n"
    "<script src=\"katex/katex.min.js\"></script>\n";

inline std::string link(const std::string& address, const std::string& html) {
  return "<a href=\"" + address + "\">" + html + "</a>";
}

/// Headers that declare what CUDA declares; the API reference leaves them out (see Doxyfile.in).
inline bool is_of_cuda(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "kernel_language.hpp" || name == "runtime_api.hpp" || name == "vectors.hpp" ||
         name == "atomics.hpp" || name == "math.hpp";
}

inline bool is_inside(const fs::path& file, const fs::path& folder) {
  const std::string relative = file.lexically_relative(folder).string();
  return !relative.empty() && !relative.starts_with("..");
}

}  // namespace rmsnorm::site
