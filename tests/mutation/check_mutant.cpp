/// \file
/// What ./rmsnorm check does, up to the first kernel of the file that is wrong, and with less
/// patience: many mutants have no end.

#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

int main() {
  using namespace rmsnorm;
  GauntletLimits limits;
  limits.steps_for_one /= 2;
  for (const Implementation& implementation : all_implementations()) {
    const int found = check_implementations({implementation}, limits);
    if (found != kAllVerified) return found;
  }
  return kAllVerified;
}
