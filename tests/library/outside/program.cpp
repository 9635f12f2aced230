// librmsnorm from C++17: the header compiles, an error is thrown with the library's sentence.
#include <cstring>
#include <rmsnorm.hpp>

int main() {
  static float data[128] = {};  // no memory of a GPU
  const rmsnorm::TensorView none(data, {0, 64});
  const rmsnorm::TensorView x(data, {2, 64}, {64, 1});
  try {
    rmsnorm::forward(x, std::nullopt, x, -1.0f);
    return 1;
  } catch (const rmsnorm::Error& error) {
    if (error.status() != RMSNORM_BAD_VALUE) return 2;
    if (std::strcmp(error.what(), "eps is -1: it needs to be finite and not negative") != 0)
      return 3;
  }
  return rmsnorm::backward_workspace_bytes(none) == 0 ? 0 : 4;
}
