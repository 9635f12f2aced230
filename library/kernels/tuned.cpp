#include "library/kernels/tuned.hpp"

#include "plans.hpp"

namespace rmsnorm::kernels {

std::optional<ForwardShape> tuned_shape(std::string_view device, int element_bytes, int vectors) {
  return find_tuned(kPlans, device, element_bytes, vectors);
}

}  // namespace rmsnorm::kernels
