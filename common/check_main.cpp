#include "common/check.hpp"
#include "common/registry.hpp"

int main() {
  return rmsnorm::check_lessons(rmsnorm::all_lessons());
}
