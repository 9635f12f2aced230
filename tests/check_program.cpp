/// \file
/// check_program SLUG [STEPS | --only TEXT]: what ./rmsnorm check does, for one lesson or mutant,
/// in a process of its own, since some cost it the GPU and some never end. STEPS: for a problem.
/// More slugs stand for 02_naive: "false_traffic" with another prediction, "supports_none" without
/// use, "no_traffic" without a prediction, and two are called "twice".

#include <cstdlib>
#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/programs/check.hpp"

int main(int argc, char** argv) {
  using namespace rmsnorm;
  const std::string slug = argc > 1 ? argv[1] : "";
  std::vector<Implementation> all = all_implementations();
  Implementation false_traffic = find_implementations(all, "02_naive").at(0);
  Implementation supports_none = false_traffic;
  false_traffic.slug = "false_traffic";
  false_traffic.traffic = [](const Problem& p) { return Traffic{8.0 * p.hidden, 4.0 * p.hidden}; };
  supports_none.slug = "supports_none";
  supports_none.unsupported = [](const Problem&) { return "it is tired"; };
  Implementation no_traffic = false_traffic;
  no_traffic.slug = "no_traffic";
  no_traffic.traffic = nullptr;
  Implementation twice = false_traffic;
  twice.slug = "twice";
  all.insert(all.end(), {false_traffic, supports_none, no_traffic, twice, twice});
  std::erase_if(all, [&](const Implementation& other) {
    // Of the library's norms in 8 bits, which are one kernel, one is enough here.
    const std::string operation = other.operation->name;
    const bool has_8_bits =
        operation.find("_e4m3") != operation.npos || operation.find("_e5m2") != operation.npos;
    const bool is_left_out = has_8_bits && operation != "residual_add_e4m3_group";
    return other.slug != slug || (slug == "librmsnorm" && is_left_out);
  });
  GauntletLimits limits;
  if (argc == 3) limits.steps_for_one = std::strtoull(argv[2], nullptr, 10);
  if (argc == 4 && argv[2] == std::string("--only")) limits.only = argv[3];
  return check_implementations(all, limits);
}
