/// \file
/// Turns a CUDA file into C++ for the CPU device. Exit code: 0 done, 1 the file is malformed or
/// cannot be read or written, 2 wrong usage, 3 the file needs what only a GPU has.
///
/// With --stand-in, the last is no failure: then OUTPUT registers the file's lessons as lessons
/// that support nothing.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "common/base/files.hpp"
#include "common/cpu_device/rewrite.hpp"

int main(int argc, char** argv) {
  const bool wants_stand_in = argc == 4 && std::string(argv[1]) == "--stand-in";
  if (argc != 3 && !wants_stand_in) {
    fmt::print(stderr, "usage: cpu_device_rewrite [--stand-in] INPUT.cu OUTPUT.cpp\n");
    return 2;
  }
  const std::string input = argv[argc - 2];
  const std::string output = argv[argc - 1];
  try {
    const std::string source = rmsnorm::read_file(input);
    try {
      rmsnorm::write_file(output, rmsnorm::cpu_device::rewrite(source, input));
    } catch (const rmsnorm::cpu_device::MissingFeature& missing) {
      fmt::print(stderr, "{}\n", missing.what());
      if (!wants_stand_in) return 3;
      // The reader knows which folder it is.
      const std::string name = std::filesystem::path(input).filename().string();
      const std::string reason = name + std::string(missing.what()).substr(input.size());
      rmsnorm::write_file(output, rmsnorm::cpu_device::stand_in(source, reason));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
