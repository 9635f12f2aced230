#include "common/cpu_device/stand_in.hpp"

#include <fmt/format.h>

#include <vector>

namespace rmsnorm::cpu_device {
namespace {

/// The string literals, without their quotes, that follow `.field = `.
std::vector<std::string> values_of(const std::string& source, const std::string& field) {
  const std::string key = "." + field + " = \"";
  std::vector<std::string> values;
  for (std::size_t at = source.find(key); at != std::string::npos; at = source.find(key, at)) {
    at += key.size();
    const std::size_t end = source.find('"', at);
    if (end == std::string::npos) break;
    values.push_back(source.substr(at, end - at));
  }
  return values;
}

/// As a string literal of C++.
std::string quoted(const std::string& text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + '"';
}

}  // namespace

std::string stand_in(const std::string& source, const std::string& reason) {
  const std::vector<std::string> slugs = values_of(source, "slug");
  const std::vector<std::string> titles = values_of(source, "title");
  const std::vector<std::string> ideas = values_of(source, "idea");
  std::string text =
      "#include \"common/contract/lesson.hpp\"\n"
      "namespace {\n"
      "cudaError_t launch(const rmsnorm::Problem&, cudaStream_t) { return cudaErrorNotSupported; "
      "}\n"
      "rmsnorm::Traffic traffic(int) { return {}; }\n"
      "int sum_depth(int hidden) { return hidden; }\n";
  for (std::size_t i = 0; i < slugs.size(); ++i) {
    const std::string folder = slugs[i].substr(0, slugs[i].find('/'));
    text += fmt::format(
        "const rmsnorm::Registration lesson_{}{{{{.slug = \"{}\", .title = \"{}\", .idea = \"{}\", "
        ".regime = \"\", .launch = launch, .refuses = +[](const rmsnorm::Problem&) {{ return "
        "std::string({}); }}, .traffic = traffic, .sum_depth = sum_depth}}}};\n",
        i, slugs[i], i < titles.size() ? titles[i] : slugs[i], i < ideas.size() ? ideas[i] : "",
        quoted(folder + kNeedsGpu + reason));
  }
  return text + "}  // namespace\n";
}

}  // namespace rmsnorm::cpu_device
