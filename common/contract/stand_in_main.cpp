/// \file
/// Writes what takes the place of a lesson's CUDA file that needs what only a GPU has: a C++ file
/// that registers its lessons under their slugs, so that they are listed by name, and that supports
/// no problem, with the reason. Lessons are found by the words `rmsnorm::Registration<...>`,
/// `.slug = "..."`, `.title = "..."` and `.idea = "..."`.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/files.hpp"

namespace rmsnorm {
namespace {

/// Everything between this beginning and the next end.
std::vector<std::string> between(
    const std::string& source, const std::string& begin, const std::string& end) {
  std::vector<std::string> found;
  for (std::size_t at = source.find(begin); at != source.npos; at = source.find(begin, at)) {
    at += begin.size();
    const std::size_t stop = source.find(end, at);
    if (stop == source.npos) break;
    found.push_back(source.substr(at, stop - at));
  }
  return found;
}

/// The string literals, without their quotes, that follow `.field = `.
std::vector<std::string> values_of(const std::string& source, const std::string& field) {
  return between(source, "." + field + " = \"", "\"");
}

std::string quoted(const std::string& text) {
  std::ostringstream literal;
  literal << std::quoted(text);
  return literal.str();
}

std::string stand_in(const std::string& source, const std::string& reason) {
  const std::vector<std::string> slugs = values_of(source, "slug");
  const std::vector<std::string> titles = values_of(source, "title");
  const std::vector<std::string> ideas = values_of(source, "idea");
  std::string text;
  for (const std::string& header : between(source, "#include \"common/", "\"")) {
    text += fmt::format("#include \"common/{}\"\n", header);
  }
  const std::vector<std::string> views = between(source, "rmsnorm::Registration<", ">");
  text += "namespace {\n";
  for (std::size_t i = 0; i < slugs.size() && i < views.size(); ++i) {
    const std::string folder = slugs[i].substr(0, slugs[i].find('/'));
    text += fmt::format(
        "const rmsnorm::Registration<{0}> lesson_{1}{{{{.slug = \"{2}\", .title = \"{3}\", "
        ".idea = \"{4}\", .regime = \"\", "
        ".launch = [](const {0}&, cudaStream_t) {{ return cudaErrorNotSupported; }}, "
        ".unsupported = [](const {0}&) {{ return std::string({5}); }}, "
        ".traffic = [](const {0}&) {{ return rmsnorm::Traffic{{}}; }}, "
        ".sum_depth = [](const {0}&) {{ return rmsnorm::SumDepth(); }}}}}};\n",
        views[i], i, slugs[i], i < titles.size() ? titles[i] : slugs[i],
        i < ideas.size() ? ideas[i] : "", quoted(folder + kNeedsGpu + reason));
  }
  return text + "}  // namespace\n";
}

}  // namespace
}  // namespace rmsnorm

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: stand_in INPUT.cu OUTPUT.cpp REASON\n");
    return 2;
  }
  try {
    const std::string input = argv[1];
    std::string reason = argv[3];  // the reader knows which folder it is
    if (reason.starts_with(input)) {
      reason = std::filesystem::path(input).filename().string() + reason.substr(input.size());
    }
    rmsnorm::write_file(argv[2], rmsnorm::stand_in(rmsnorm::read_file(input), reason));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
