#pragma once
/// \file
/// The script rmsnorm without a build: CMake is replaced by a script.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/files.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

namespace tests {

/// A repository with the script and the lessons, and a CMake that does as it is told.
class ScriptedRepository {
 public:
  ScriptedRepository() {
    std::filesystem::copy_file(top() / "rmsnorm", folder() / "rmsnorm");
    for (const char* name : {"cmake", "common", "lessons", "tests"}) {
      std::filesystem::create_directory_symlink(top() / name, folder() / name);
    }
    std::filesystem::create_directory(folder() / "bin");
    build_does("");
    write_program("nvcc", "exit 0");
    write_program("clang++", "exit 0");
  }

  /// What a command does from now on.
  void write_program(const std::string& name, const std::string& commands) const {
    const std::filesystem::path file = folder() / "bin" / name;
    rmsnorm::write_file(file, "#!/bin/sh\n" + commands + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  /// What `cmake --build` does from now on. The exercise as it is given is made by CMake itself.
  void build_does(const std::string& commands) const {
    write_program(
        "cmake",
        "case \"$*\" in\n*' -P '*) PATH=${PATH#*:} exec cmake \"$@\" ;;\n*--build*) ;;\n"
        "*) exit 0 ;;\nesac\n" +
            commands);
  }

  /// `cmake --build` makes this program of build/cpu from now on, which does this.
  void build_makes(const std::string& program, const std::string& commands) const {
    write_program("made", commands);
    build_does(
        "program=build/cpu/" + program + "; mkdir -p $(dirname $program); cp bin/made $program");
  }

  /// Runs a command that finds the programs written here before the system's.
  Finished run(std::vector<std::string> command) const {
    const std::string path = (folder() / "bin").string() + ":" + std::getenv("PATH");
    command.insert(command.begin(), {"env", "PATH=" + path});
    return run_without_gpu(command);
  }

  std::string script() const { return (folder() / "rmsnorm").string(); }  ///< ./rmsnorm of its own
  std::filesystem::path folder() const { return folder_ / ""; }           ///< where it is

 private:
  TemporaryFolder folder_;
};

}  // namespace tests
