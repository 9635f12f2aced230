#include "tests/command.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <sstream>

#include "common/base/files.hpp"
#include "tests/temporary_folder.hpp"

namespace tests {
namespace {

/// In quotes, as the shell takes it for one word.
std::string quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Finished run_after(const std::string& prefix, const std::vector<std::string>& command) {
  const TemporaryFolder folder;
  std::string line = "exec " + prefix;
  for (const std::string& word : command) line += quoted(word) + " ";
  line += "</dev/null >" + quoted(folder / "out") + " 2>" + quoted(folder / "err");
  const int status = std::system(line.c_str());
  return {
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
      rmsnorm::read_file(folder / "out"), rmsnorm::read_file(folder / "err")};
}

}  // namespace

Finished run_without_gpu(const std::vector<std::string>& command) {
  return run_after("env CUDA_VISIBLE_DEVICES= ", command);
}

Finished run(const std::vector<std::string>& command) {
  return run_after("", command);
}

std::string on_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

Finished run_all_lessons(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RMSNORM_LESSONS_DIR "/all_lessons");
  return run(arguments);
}

}  // namespace tests
