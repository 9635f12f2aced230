/// \file
/// Turns a CUDA file into C++ for the CPU device. Exit code: 0 done, 1 the file is malformed or
/// cannot be read or written, 2 wrong usage, 3 the file needs what only a GPU has.
///
/// With --otherwise, the last is another program's business: it is called with INPUT, OUTPUT and
/// the reason, "INPUT:LINE: the CPU device has no ...".
///
/// With --headers, what the file includes from its own folder and from these is rewritten too, into
/// INTO, with all that it includes in turn. A header that is refused becomes an #error: maybe the
/// preprocessor leaves it out. OUTPUT.d says, for make, where headers were looked for.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "common/cpu_device/compiler/rewrite.hpp"
#include "common/cpu_device/compiler/tokens.hpp"

namespace fs = std::filesystem;
using rmsnorm::read_file;
using rmsnorm::cpu_device::quoted;
using rmsnorm::cpu_device::rewrite;

namespace {

const fs::path kRoot = CPU_DEVICE_ROOT;  // of the device's headers, "common/..."

/// A path as make reads it.
std::string for_make(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) {
    if (c == ' ' || c == '#') text += '\\';
    text += c;
    if (c == '$') text += c;
  }
  return text;
}

/// The headers that a file includes, rewritten into a folder under their whole paths.
class Headers {
 public:
  Headers(fs::path into, std::vector<fs::path> folders)
      : into_(std::move(into)), folders_(std::move(folders)) {}

  /// The C++ for a file that includes them.
  std::string rewritten(const fs::path& file) {
    return rewrite(read_file(file), file.string(), [&](const std::string& name) {
      return included(name, file.parent_path());
    });
  }

  /// Writes what is new, and all behind it: what compiles the last file looks at its time alone.
  void write(const fs::path& output, std::string_view text) {
    if (!is_new_ && fs::exists(output) && read_file(output) == text) return;
    rmsnorm::write_file(output, text);
    is_new_ = true;
  }

  /// Where headers were looked for, as a rule of make's.
  std::string rule(const std::string& output) const {
    std::string rule = for_make(output) + ":";
    for (const fs::path& file : looked_for_) rule += " " + for_make(file);
    return rule + "\n";
  }

 private:
  /// What an #include in a file of this folder includes. Others the compiler finds.
  std::string included(const std::string& name, const fs::path& folder_of_file) {
    const std::string header = name.substr(1, name.size() - 2);
    std::vector<fs::path> folders = folders_;
    if (name[0] == '"') folders.insert(folders.begin(), folder_of_file);
    for (const fs::path& folder : folders) {
      const fs::path file = fs::absolute(folder / header).lexically_normal();
      const bool is_own = header.starts_with("common/") && file == kRoot / header;
      if (is_own) return name;  // the device's: its other headers include it as well
      const bool is_first = looked_for_.insert(file).second;
      if (!fs::is_regular_file(file)) continue;
      // By its own name it would be found when the original is gone.
      const fs::path output = into_ / (file.relative_path().string() + ".rewritten");
      if (is_first) write(output, rewritten_or_refused(file));
      return quoted(output.string());
    }
    return name;
  }

  std::string rewritten_or_refused(const fs::path& file) {
    try {
      return rewritten(file);
    } catch (const std::runtime_error& refusal) {
      std::string_view said = refusal.what();  // FILE:LINE: SENTENCE
      if (!said.starts_with(file.string() + ":")) throw;
      said.remove_prefix(file.string().size() + 1);
      const std::size_t colon = said.find(':');
      return fmt::format(
          "#line {} {}\n#error{}\n", said.substr(0, colon), quoted(file.string()),
          said.substr(colon + 1));
    }
  }

  fs::path into_;
  std::vector<fs::path> folders_;
  std::set<fs::path> looked_for_;
  bool is_new_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool has_headers = arguments.size() >= 4 && arguments[0] == "--headers";
  const bool has_other = arguments.size() == 4 && arguments[0] == "--otherwise";
  if (arguments.size() != 2 && !has_headers && !has_other) {
    fmt::print(
        stderr,
        "usage: cpu_device_rewrite [--otherwise PROGRAM] INPUT.cu OUTPUT.cpp\n"
        "       cpu_device_rewrite --headers INTO INPUT.cu OUTPUT.cpp [FOLDER...]\n");
    return 2;
  }
  const std::string& input = arguments[has_headers || has_other ? 2 : 0];
  const std::string& output = arguments[has_headers || has_other ? 3 : 1];
  try {
    if (has_headers) {
      Headers headers(arguments[1], {arguments.begin() + 4, arguments.end()});
      headers.write(output, headers.rewritten(input));
      rmsnorm::write_file(output + ".d", headers.rule(output));
    } else {
      rmsnorm::write_file(output, rewrite(read_file(input), input));
    }
    return 0;
  } catch (const rmsnorm::cpu_device::MissingFeature& missing) {
    fmt::print(stderr, "{}\n", missing.what());
    if (!has_other) return 3;
    execl(argv[2], argv[2], input.c_str(), output.c_str(), missing.what(), nullptr);
    std::perror(argv[2]);
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
