/// \file
/// Turns a CUDA file into C++ for the CPU device. Exit code: 0 done, 1 the file is malformed or
/// cannot be read or written, 2 wrong usage, 3 the file needs what only a GPU has.
///
/// With --otherwise, the last is another program's business: it is called with INPUT, OUTPUT and
/// the reason, "INPUT:LINE: the CPU device has no ...".

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "common/base/files.hpp"
#include "common/cpu_device/compiler/rewrite.hpp"

int main(int argc, char** argv) {
  const bool has_other = argc == 5 && std::string(argv[1]) == "--otherwise";
  if (argc != 3 && !has_other) {
    fmt::print(stderr, "usage: cpu_device_rewrite [--otherwise PROGRAM] INPUT.cu OUTPUT.cpp\n");
    return 2;
  }
  const char* const input = argv[argc - 2];
  const char* const output = argv[argc - 1];
  try {
    rmsnorm::write_file(output, rmsnorm::cpu_device::rewrite(rmsnorm::read_file(input), input));
    return 0;
  } catch (const rmsnorm::cpu_device::MissingFeature& missing) {
    fmt::print(stderr, "{}\n", missing.what());
    if (!has_other) return 3;
    execl(argv[2], argv[2], input, output, missing.what(), nullptr);
    std::perror(argv[2]);
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
