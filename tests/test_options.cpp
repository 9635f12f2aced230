/// \file
/// The command line, as far as it is right. What it says about mistakes: test_program.cpp.

#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/programs/options.hpp"
#include "tests/catch.hpp"
#include "tests/operations.hpp"

using namespace rmsnorm;

namespace {

ParsedOptions parse(
    std::vector<const char*> arguments,
    const std::vector<Implementation>& implementations = all_implementations()) {
  arguments.insert(arguments.begin(), "program");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), implementations);
}

Options options_of(const std::vector<const char*>& arguments) {
  const ParsedOptions parsed = parse(arguments);
  REQUIRE_FALSE(parsed.exit_code.has_value());
  return parsed.options;
}

std::string names_of(const std::vector<Regime>& regimes) {
  std::string names;
  for (const Regime& regime : regimes) names += regime.name + " ";
  return names;
}

std::string slugs_of(const Options& options) {
  std::string slugs;
  for (const Implementation& i : options.implementations) slugs += i.slug + std::string(" ");
  return slugs;
}

constexpr const char* kAllRegimes = "prefill batch decode heads wide backward ";

}  // namespace

TEST_CASE("without options every lesson runs in all regimes") {
  const Options options = options_of({});
  CHECK(options.implementations.size() == all_implementations().size());
  CHECK(names_of(options.regimes) == kAllRegimes);
  CHECK(options.eps == 1e-5f);
  CHECK(options.seed == 1);
  CHECK(options.min_seconds == 0.1);
  CHECK_FALSE(options.only_cache.has_value());
  CHECK(options.csv_file.empty());
  CHECK_FALSE((options.verify_only || options.list));
}

TEST_CASE("every option arrives") {
  const Options options = options_of(
      {"--lesson", "4", "--eps", "0.5", "--seed", "42", "--min-time", "0.25", "--warm", "--csv",
       "out.csv", "--verify-only", "--list", "--regime", "decode"});
  CHECK(slugs_of(options) == "04_warp_reduce ");
  CHECK(options.eps == 0.5f);
  CHECK(options.seed == 42);
  CHECK(options.min_seconds == 0.25);
  CHECK(options.only_cache == Cache::warm);
  CHECK(options_of({"--cold"}).only_cache == Cache::cold);
  CHECK(options.csv_file == "out.csv");
  CHECK((options.verify_only && options.list));
  CHECK(names_of(options.regimes) == "decode ");
  // The limits of a number are part of its range.
  CHECK(options_of({"--eps", "0"}).eps == 0);
  CHECK(options_of({"--seed", "18446744073709551615"}).seed == 18446744073709551615u);
}

TEST_CASE(
    "lessons and regimes can be repeated, what is named twice is done once, a sweep is asked for") {
  const Options options = options_of(
      {"--lesson", "1", "--lesson", "4", "--lesson", "04_warp_reduce", "--regime", "wide",
       "--regime", "all"});
  CHECK(slugs_of(options) == "01_sequential_cpu 04_warp_reduce ");
  CHECK(names_of(options.regimes) == "wide prefill batch decode heads backward ");
  CHECK(names_of(options_of({"--regime", "all"}).regimes) == kAllRegimes);
  CHECK(names_of(options_of({"--regime", "sweep_rows"}).regimes) == "sweep_rows ");
}

TEST_CASE("a program of one lesson runs its variants when they are asked for") {
  const std::vector<Implementation> of_lesson =
      find_implementations(all_implementations(), "06_float4");
  REQUIRE(of_lesson.size() > 1);
  const auto chosen = [&](const std::vector<const char*>& arguments) {
    return slugs_of(parse(arguments, of_lesson).options);
  };
  CHECK(chosen({}) == "06_float4 ");
  CHECK(chosen({"--variants"}).starts_with("06_float4 06_float4/512 "));
  CHECK(chosen({"--list"}).starts_with("06_float4 06_float4/512 "));
  CHECK(chosen({"--lesson", "06_float4/512"}) == "06_float4/512 ");
}

TEST_CASE("a prediction chooses the lesson and its predecessor and the lesson's own regime") {
  const Options options = options_of(
      {"--recorded", "default.csv", "--lesson", "4", "--predict", "1.3", "--recorded", "own.csv"});
  CHECK(options.predicted == 1.3);
  CHECK(options.recorded_file == "own.csv");  // the last one counts
  CHECK(slugs_of(options) == "03_shared_memory 04_warp_reduce ");
  CHECK(names_of(options.regimes) == "decode ");
}

TEST_CASE("rows or hidden alone make a problem of the reader's own") {
  const auto check = [](const std::vector<const char*>& arguments, int rows, int hidden) {
    const Options options = options_of(arguments);
    REQUIRE(names_of(options.regimes) == kCustomRegime + std::string(" "));
    CHECK(options.regimes[0].shapes.at(0).rows == rows);
    CHECK(options.regimes[0].shapes.at(0).hidden == hidden);
  };
  check({"--rows", "7"}, 7, 4096);
  check({"--hidden", "5"}, 1024, 5);
  check({"--rows", "0", "--hidden", "1073741824"}, 0, 1073741824);
}

TEST_CASE("types can be chosen and repeated and otherwise follow from lesson and regime") {
  const Options chosen = options_of(
      {"--dtype", "bf16/fp32", "--dtype", "fp32", "--dtype", "bf16/fp32", "--regime", "decode"});
  const std::vector<Types> two = {*types_named("bf16/fp32"), Types{}};
  CHECK(chosen.types == two);

  Implementation fp32 = find_implementations(all_implementations(), "04_warp_reduce").at(0);
  Implementation typed = fp32;
  typed.is_typed = true;
  const Regime& decode = chosen.regimes.at(0);
  CHECK(types_for(chosen, typed, decode) == two);
  CHECK(types_for(chosen, fp32, decode) == two);  // and it does not support one of them

  const std::vector<Types> fp32_alone = {Types{}};
  const std::vector<Types> all = {Types{}, *types_named("bf16"), *types_named("fp16")};
  Options none = options_of({});
  CHECK(types_for(none, fp32, decode) == fp32_alone);
  CHECK(types_for(none, typed, decode) == all);
  CHECK(types_for(none, typed, sweeps().at(0)) == fp32_alone);
  CHECK(types_for(none, typed, options_of({"--rows", "3"}).regimes.at(0)) == fp32_alone);
  none.predicted = 2;
  CHECK(types_for(none, fp32, decode) == fp32_alone);
  CHECK(
      types_for(none, typed, decode) ==
      std::vector<Types>{*types_named("bf16"), *types_named("fp32")});
}

TEST_CASE("one operation can be chosen and a prediction is among its lessons") {
  std::vector<Implementation> all = all_implementations();
  Implementation other = find_implementations(all, "04_warp_reduce").at(0);
  other.slug = "98_other";
  other.operation = tests::operations()[1];
  all.push_back(other);
  const auto chosen = [&](const std::vector<const char*>& arguments) {
    const ParsedOptions parsed = parse(arguments, all);
    if (parsed.exit_code) return "exit code " + std::to_string(*parsed.exit_code);
    for (const Implementation& implementation : parsed.options.implementations) {
      CHECK(implementation.operation->name == std::string(arguments[1]));
    }
    return slugs_of(parsed.options);
  };
  CHECK(chosen({"--operation", "residual_add"}).ends_with("98_other "));
  CHECK(chosen({"--operation", "rms_norm", "--lesson", "98_other"}) == "exit code 2");
  CHECK(
      chosen({"--operation", "rms_norm", "--lesson", "4", "--predict", "2", "--recorded", "x"}) ==
      "03_shared_memory 04_warp_reduce ");
}
