// librmsnorm from C++17: the header compiles, an error is thrown with the library's sentence.
#include <cstring>
#include <rmsnorm.hpp>

int main() {
  static float data[128] = {};  // no memory of a GPU
  const rmsnorm::TensorView none(data, {0, 64});
  const rmsnorm::TensorView x(data, {2, 64}, {64, 1});
  const rmsnorm::TensorView rstd(data, {2});
  try {
    rmsnorm::forward(x, std::nullopt, x, -1.0f);
    return 1;
  } catch (const rmsnorm::Error& error) {
    if (error.status() != RMSNORM_BAD_VALUE) return 2;
    if (std::strcmp(error.what(), "eps is -1: it needs to be finite and not negative") != 0)
      return 3;
  }
  if (rmsnorm::backward_workspace_bytes(none) != 0) return 4;
  int refused = 0;
  const auto is_refused = [&](auto call) {
    try {
      call();
    } catch (const rmsnorm::Error&) {
      ++refused;
    }
  };
  constexpr float kEps = -1;
  is_refused([&] { rmsnorm::forward_pair(x, {}, x, x, {}, x, kEps); });
  is_refused([&] { rmsnorm::residual_add(x, x, {}, x, kEps); });
  is_refused([&] { rmsnorm::forward_rstd(x, {}, x, rstd, kEps); });
  is_refused([&] { rmsnorm::backward(x, x, {}, rstd, x, {}, nullptr, 0); });
  return refused == 4 ? 0 : 5;
}
