#include "tests/command.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "common/base/files.hpp"
#include "tests/temporary_folder.hpp"

namespace tests {
namespace {

/// A list of C strings with a null at its end, as the system calls want it.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> this_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Finished run_in(std::vector<std::string> environment, std::vector<std::string> command) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const std::string err = (folder / "err").string();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);

  pid_t child = 0;
  const std::vector<char*> arguments = pointers_to(command);
  const int error = posix_spawnp(
      &child, arguments[0], &files, nullptr, arguments.data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  if (error == ENOENT) return {127, "", ""};
  if (error != 0)
    throw std::runtime_error("cannot run " + command[0] + ": " + std::strerror(error));

  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {exit_code_of(status), rmsnorm::read_file(out), rmsnorm::read_file(err)};
}

}  // namespace

Finished run_without_gpu(const std::vector<std::string>& command) {
  std::vector<std::string> environment = {"CUDA_VISIBLE_DEVICES="};
  for (std::string& variable : this_environment()) {
    if (!variable.starts_with(environment[0])) environment.push_back(std::move(variable));
  }
  return run_in(std::move(environment), command);
}

Finished run(const std::vector<std::string>& command) {
  return run_in(this_environment(), command);
}

}  // namespace tests
