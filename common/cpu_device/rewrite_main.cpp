/// \file
/// Turns a CUDA file into C++ for the CPU device. Exit code: 0 done, 1 the file is malformed or
/// cannot be read or written, 2 wrong usage, 3 the file needs what only a GPU has.

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "common/cpu_device/rewrite.hpp"
#include "common/files.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: cpu_device_rewrite INPUT.cu OUTPUT.cpp\n");
    return 2;
  }
  try {
    rmsnorm::write_file(
        argv[2], rmsnorm::cpu_device::rewrite(rmsnorm::read_file(argv[1]), argv[1]));
    return 0;
  } catch (const rmsnorm::cpu_device::MissingFeature& missing) {
    fmt::print(stderr, "{}\n", missing.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
