#include "common/cpu_device/compiler/rewrite_ptx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

namespace rmsnorm::cpu_device {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view text, char at) {
  Words parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// What a part of an instruction's name says about caches and scopes alone: they are the same here.
bool is_hint(const std::string& part) {
  static const Words kHints = {"nc", "ca", "cg",   "cs",      "lu",  "cv",   "wb",
                               "wt", "rn", "full", "aligned", "cta", "weak", "satfinite"};
  return part.starts_with("L1::") || part.starts_with("L2::") ||
         std::find(kHints.begin(), kHints.end(), part) != kHints.end();
}

/// The registers that tell a thread where it is.
const std::map<std::string, std::string> kRegisters = {
    {"laneid", "::rmsnorm::cpu_device::lane()"},
    {"warpid", "::rmsnorm::cpu_device::warp()"},
    {"smid", "0"},
    {"cluster_ctarank", "::rmsnorm::cpu_device::cluster_rank()"},
    {"clusterid.x", "blockIdx.x / static_cast<unsigned>(::rmsnorm::cpu_device::cluster_blocks())"},
    {"cluster_nctarank", "::rmsnorm::cpu_device::cluster_blocks()"},
    {"nsmid", "1"},
    {"lanemask_eq", "1u << ::rmsnorm::cpu_device::lane()"},
    {"lanemask_lt", "(1u << ::rmsnorm::cpu_device::lane()) - 1"},
    {"lanemask_le", "(2u << ::rmsnorm::cpu_device::lane()) - 1"},
    {"lanemask_gt", "0u - (2u << ::rmsnorm::cpu_device::lane())"},
    {"lanemask_ge", "0u - (1u << ::rmsnorm::cpu_device::lane())"}};

/// Instructions, of the operands {0}, {1}, ... or {all}. {ns} is the device's namespace, {at} the
/// source location.
const std::map<std::string, std::string> kInstructions = {
    {"add.f32", "{0} = {ns}one_nan({1} + {2})"},
    {"sub.f32", "{0} = {ns}one_nan({1} - {2})"},
    {"mul.f32", "{0} = {ns}one_nan({1} * {2})"},
    {"div.f32", "{0} = {ns}one_nan({1} / {2})"},
    {"div.approx.f32", "{0} = {ns}div_of_unit({1}, {2})"},
    {"fma.f32", "{0} = {ns}one_nan(fmaf({1}, {2}, {3}))"},
    {"min.f32", "{0} = {ns}least<float>({1}, {2})"},
    {"max.f32", "{0} = {ns}greatest<float>({1}, {2})"},
    {"rsqrt.approx.f32", "{0} = rsqrtf({1})"},
    {"sqrt.f32", "{0} = {ns}one_nan(sqrtf({1}))"},
    {"sqrt.approx.f32", "{0} = {ns}one_nan(sqrtf({1}))"},
    {"rcp.f32", "{0} = {ns}one_nan(1 / {1})"},
    {"rcp.approx.f32", "{0} = {ns}one_nan(1 / {1})"},
    {"ex2.approx.f32", "{0} = {ns}exp2_of_unit({1})"},
    {"lg2.approx.f32", "{0} = {ns}log2_of_unit({1})"},
    {"sin.approx.f32", "{0} = {ns}sin_of_unit({1})"},
    {"cos.approx.f32", "{0} = {ns}cos_of_unit({1})"},
    {"tanh.approx.f32", "{0} = {ns}tanh_of_unit({1})"},
    {"cp.async.commit_group", "{ns}commit_copies()"},
    {"membar.gl", "::__threadfence()"},
    {"membar.sys", "::__threadfence_system()"},
    {"membar", "::__threadfence_block()"},  // .cta is a hint
    {"griddepcontrol.wait", "::cudaGridDependencySynchronize()"},
    {"griddepcontrol.launch_dependents", "::cudaTriggerProgrammaticLaunchCompletion()"},
    {"bar.warp.sync", "::__syncwarp({0})"},
    {"barrier.cluster.arrive", "{ns}cluster_arrive(true, {at})"},
    {"barrier.cluster.arrive.release", "{ns}cluster_arrive(true, {at})"},
    {"barrier.cluster.arrive.relaxed", "{ns}cluster_arrive(false, {at})"},
    {"barrier.cluster.wait", "{ns}cluster_wait({at})"},
    {"barrier.cluster.wait.acquire", "{ns}cluster_wait({at})"},
    {"mapa.shared.u32", "{0} = {ns}map_address({1}, {2})"},
    {"fence.mbarrier_init.release.cluster", ""},
    {"fence.proxy.async", ""},
    {"fence.proxy.async.shared", ""},
    {"selp.b32", "{0} = {3} ? {1} : {2}"},
    {"selp.u32", "{0} = {3} ? {1} : {2}"},
    {"createpolicy.fractional.b64", "{0} = 0"},
    {"prefetch.global.L1", ""},
    {"prefetch.global.L2", ""},
    {"cp.async.wait_all", "{ns}commit_copies(); {ns}wait_for_copies(0)"},
    {"cp.async.wait_group", "{ns}wait_for_copies({0})"},
    {"cp.async.shared.global", "{ns}copy({all})"},
    {"cp.async.bulk.shared.global.mbarrier::complete_tx::bytes", "{ns}bulk_copy({at}, {all})"},
    {"mbarrier.init.shared.b64", "{ns}mbarrier_init({all})"},
    {"mbarrier.arrive.expect_tx.shared.b64 _", "{ns}mbarrier_arrive_expecting({at}, {1}, {2})"},
    {"mbarrier.try_wait.parity.shared.b64",
     "{0} = {ns}mbarrier_try_wait({ns}Scope::block, {at}, {1}, {2})"},
    {"mbarrier.try_wait.parity.acquire.cta.shared.b64",
     "{0} = {ns}mbarrier_try_wait({ns}Scope::block, {at}, {1}, {2})"},
    {"mbarrier.try_wait.parity.acquire.cluster.shared.b64",
     "{0} = {ns}mbarrier_try_wait({ns}Scope::cluster, {at}, {1}, {2})"},
    {"bar.sync", "{ns}bar_sync({at}, {all})"},
    {"barrier.sync", "{ns}bar_sync({at}, {all})"},
    {"bar.arrive", "{ns}bar_arrive({at}, {all})"},
    {"barrier.arrive", "{ns}bar_arrive({at}, {all})"}};

/// An operand as C++: "%0" is an expression, "[%1+16]" an address in this kind of memory.
std::string operand(std::string text, const Words& operands, const std::string& memory) {
  std::erase_if(text, [](char c) { return c == '{' || c == '}' || std::isspace(c) != 0; });
  if (text.starts_with("[")) {
    const Words sum = split(std::string_view(text).substr(1, text.size() - 2), '+');
    return fmt::format(
        "::rmsnorm::cpu_device::{}_at({}, {})", memory, operand(sum[0], operands, memory),
        sum.size() > 1 ? sum[1] : "0");
  }
  if (text.starts_with("%%")) {
    const std::string name = text.substr(2);
    if (const auto found = kRegisters.find(name); found != kRegisters.end()) return found->second;
    static const std::map<std::string, std::string> kIndices = {
        {"tid", "threadIdx"}, {"ctaid", "blockIdx"}, {"ntid", "blockDim"}, {"nctaid", "gridDim"}};
    const Words parts = split(name, '.');
    const auto index = kIndices.find(parts[0]);
    return index != kIndices.end() && parts.size() == 2 ? index->second + "." + parts[1] : "";
  }
  const bool is_register = std::isalpha(text[0]) != 0 || text.starts_with("$");
  if (is_register) return "ptx_" + text;    // the C++ may have another of that name
  if (!text.starts_with("%")) return text;  // a number, or "_"
  const auto number = static_cast<std::size_t>(std::atoi(text.c_str() + 1));
  return number < operands.size() ? operands[number] : "";
}

/// The types of PTX that a register, an atomic operation or a comparison has.
const std::map<std::string, std::string> kTypes = {
    {"pred", "bool"},         {"u32", "std::uint32_t"}, {"b32", "std::uint32_t"},
    {"s32", "std::int32_t"},  {"u64", "std::uint64_t"}, {"b64", "std::uint64_t"},
    {"s64", "std::int64_t"},  {"f32", "float"},         {"u16", "std::uint16_t"},
    {"b16", "std::uint16_t"}, {"s16", "std::int16_t"},  {"u8", "std::uint8_t"},
    {"b8", "std::uint8_t"},   {"s8", "std::int8_t"},    {"f64", "double"}};

/// The operands of an instruction as C++, of which those in brackets are in this kind of memory.
Words values_of(std::string_view text, const Words& operands, const std::string& memory) {
  Words values = split(text, ',');
  for (std::string& value : values) value = operand(value, operands, memory);
  return values;
}

/// ld, st, atom, red and fence that order something, by the parts of their name; "" if it is none
/// of them.
std::string strong(const Words& parts, std::string_view text, const Words& operands) {
  const std::string ns = "::rmsnorm::cpu_device::";
  const bool is_change = parts[0] == "atom" || parts[0] == "red";
  std::string scope = is_change ? "device" : "";
  std::string semantics = is_change ? "relaxed" : "";
  std::string memory = "global";
  Words others;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    static const std::map<std::string, std::string> kScopes = {
        {"cta", "block"}, {"cluster", "cluster"}, {"gpu", "device"}, {"sys", "system"}};
    static const Words kSemantics = {"relaxed", "acquire", "release", "acq_rel", "sc"};
    if (const auto found = kScopes.find(parts[i]); found != kScopes.end()) {
      scope = found->second;
    } else if (std::ranges::find(kSemantics, parts[i]) != kSemantics.end()) {
      semantics = parts[i];
    } else if (parts[i] == "volatile") {
      semantics = "relaxed";
      scope = "system";
    } else if (parts[i].starts_with("shared")) {
      memory = "shared";
    } else if (parts[i] != "global" && !is_hint(parts[i])) {
      others.push_back(parts[i]);
    }
  }
  if (scope.empty() || semantics.empty()) return "";
  if (parts[0] == "fence") {
    return others.empty()
               ? fmt::format("{}fence({}Scope::{}, {});", ns, ns, scope, semantics == "sc")
               : "";
  }
  const bool is_both = semantics == "acq_rel";
  const std::string strength = fmt::format(
      "{}Strength{{{}Scope::{}, {}, {}}}", ns, ns, scope, is_both || semantics == "acquire",
      is_both || semantics == "release");
  Words values = values_of(text, operands, memory);
  if (std::ranges::find(values, "") != values.end() || others.empty()) return "";
  if (is_change) {
    const auto type = kTypes.find(others.back());
    static const Words kChanges = {"add", "exch", "min", "max", "and",
                                   "or",  "xor",  "inc", "dec", "cas"};
    const bool is_known = others.size() == 2 && type != kTypes.end() &&
                          std::ranges::find(kChanges, others[0]) != kChanges.end();
    if (!is_known) return "";
    const std::string rest = fmt::format(
        "{}, {}change_{}, {}", strength, ns, others[0],
        fmt::join(values.begin() + (parts[0] == "atom" ? 2 : 1), values.end(), ", "));
    return fmt::format(
        "{}{}<{}, {}>({}, {});", ns, parts[0] == "atom" ? "take_flag" : "change_flag", type->second,
        others[0] == "cas", parts[0] == "atom" ? values[0] + ", " + values[1] : values[0], rest);
  }
  const auto type = kTypes.find(others.back());
  const bool is_vector = others.size() == 2 && (others[0] == "v2" || others[0] == "v4");
  if (type == kTypes.end() || values.size() < 2 || (others.size() > 1 && !is_vector)) return "";
  if (parts[0] == "ld") std::rotate(values.begin(), values.end() - 1, values.end());
  return fmt::format(
      "{}{}_flag<{}>({}, {}, {});", ns, parts[0] == "ld" ? "load" : "store", type->second,
      values[0], strength, fmt::join(values.begin() + 1, values.end(), ", "));
}

/// setp: a predicate is whether two numbers compare so.
std::string comparison(const Words& parts, const Words& values) {
  static const std::map<std::string, std::string> kComparisons = {
      {"eq", "=="}, {"ne", "!="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"},
      {"ge", ">="}, {"lo", "<"},  {"ls", "<="}, {"hi", ">"},  {"hs", ">="}};
  const auto compare = kComparisons.find(parts.size() == 3 ? parts[1] : "");
  const auto type = kTypes.find(parts.back());
  if (compare == kComparisons.end() || type == kTypes.end() || values.size() != 3) return "";
  return fmt::format(
      "{} = static_cast<{}>({}) {} static_cast<{}>({});", values[0], type->second, values[1],
      compare->second, type->second, values[2]);
}

/// A block of its own has registers, each a variable here; C++ has the braces.
std::string_view behind_braces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of("{ "), text.size()));
}

}  // namespace

std::string label_of(std::string_view instruction) {
  instruction = behind_braces(instruction);
  const std::size_t end = instruction.find(':');
  const bool is_label =
      end != instruction.npos && end > 0 &&
      end == instruction.find_first_not_of(
                 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$") &&
      instruction.substr(end, 2) != "::";
  return is_label ? std::string(instruction.substr(0, end)) : "";
}

std::string rewrite_ptx(std::string_view instruction, const Words& operands) {
  instruction = behind_braces(instruction);
  while (instruction.ends_with(' ')) instruction.remove_suffix(1);
  if (instruction.empty() || instruction == "}") return ";";
  if (const std::string label = label_of(instruction); !label.empty()) {
    const std::string rest = rewrite_ptx(instruction.substr(label.size() + 1), operands);
    return rest.empty() ? "" : fmt::format("{}: {}", label, rest);
  }
  if (instruction.starts_with("bra ") || instruction.starts_with("bra.uni ")) {
    return fmt::format("goto {};", instruction.substr(instruction.rfind(' ') + 1));
  }
  if (instruction.starts_with('@')) {
    const std::size_t end = std::min(instruction.find(' '), instruction.size());
    const std::string rest = rewrite_ptx(instruction.substr(end), operands);
    const bool is_not = instruction.starts_with("@!");
    const std::string name(instruction.substr(is_not ? 2 : 1, end - (is_not ? 2 : 1)));
    return rest.empty()
               ? ""
               : fmt::format("if ({}{}) {}", is_not ? "!" : "", operand(name, {}, ""), rest);
  }
  if (constexpr std::string_view kRegister = ".reg ."; instruction.starts_with(kRegister)) {
    instruction.remove_prefix(kRegister.size());
    const std::size_t end = std::min(instruction.find(' '), instruction.size());
    const auto type = kTypes.find(std::string(instruction.substr(0, end)));
    if (type == kTypes.end() || instruction.find('<') != instruction.npos) return "";
    std::string names;
    for (const std::string& name : split(instruction.substr(end), ',')) {
      names += (names.empty() ? "" : ", ") + operand(name, {}, "") + "{}";
    }
    return fmt::format("{} {};", type->second, names);
  }
  constexpr std::string_view kPolicy = ".L2::cache_hint";
  if (const std::size_t hint = instruction.find(kPolicy); hint != instruction.npos) {
    const std::size_t last = instruction.rfind(',');  // the policy, which changes nothing here
    const std::string policy = operand(std::string(instruction.substr(last + 1)), operands, "");
    std::string rest(instruction.substr(0, last));
    rest = rewrite_ptx(rest.erase(hint, kPolicy.size()), operands);
    return rest.empty() ? "" : fmt::format("{} static_cast<void>({});", rest, policy);
  }
  const std::size_t space = std::min(instruction.find_first_of(" \t"), instruction.size());
  Words parts = split(instruction.substr(0, space), '.');
  for (const char* const name : {"ld", "st", "atom", "red", "fence"}) {
    if (parts[0] != name) continue;
    const std::string statement = strong(parts, instruction.substr(space), operands);
    if (!statement.empty()) return statement;
  }
  const bool flushes = std::erase(parts, "ftz") > 0;
  std::erase_if(parts, is_hint);
  for (std::string& part : parts) {
    if (part.starts_with("shared::")) part = "shared";  // of the block or the cluster
  }
  std::string name = fmt::format("{}", fmt::join(parts, "."));
  const bool has_shared = std::ranges::find(parts, "shared") != parts.end();
  Words values;
  if (space < instruction.size()) values = split(instruction.substr(space + 1), ',');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_source_of_copy = parts[0] == "cp" && i == 1;
    const bool is_shared = has_shared && !is_source_of_copy;
    values[i] = operand(values[i], operands, is_shared ? "shared" : "global");
    if (values[i].empty()) return "";
  }
  const std::string ns = "::rmsnorm::cpu_device::";
  const std::string all = fmt::format("{}", fmt::join(values, ", "));
  if (!values.empty() && values[0] == "_") name += " _";
  if (const auto known = kInstructions.find(name); known != kInstructions.end()) {
    for (std::size_t i = 1; flushes && i < values.size(); ++i) {
      values[i] = fmt::format("{}flushed({})", ns, values[i]);
    }
    values.resize(4);
    std::string form = known->second;
    constexpr std::string_view kResult = "{0} = ";
    if (flushes && form.starts_with(kResult)) form.insert(kResult.size(), "{ns}flushed(") += ')';
    return fmt::format(
               fmt::runtime(form), values[0], values[1], values[2], values[3], fmt::arg("all", all),
               fmt::arg("ns", ns), fmt::arg("at", "{__FILE__, __LINE__}")) +
           ";";
  }
  if (name.starts_with("st.async.shared.mbarrier::complete_tx::bytes.") && values.size() == 3 &&
      parts.size() == 5) {
    return fmt::format("{}store_async<{}>({});", ns, std::atoi(parts.back().c_str() + 1) / 8, all);
  }
  if (parts[0] == "setp" && !flushes) return comparison(parts, values);
  if (name.starts_with("mov.") && values.size() == 2) {
    return fmt::format("{} = {};", values[0], values[1]);
  }
  const bool is_plain =
      parts.size() >= 3 &&
      std::all_of(parts.begin() + 1, parts.end() - 1, [](const std::string& part) {
        return part == "global" || part == "shared" || part == "v2" || part == "v4";
      });
  if ((parts[0] == "ld" || parts[0] == "st") && is_plain) {  // not of a flag
    const int bytes = std::atoi(parts.back().c_str() + 1) / 8;
    const bool is_load = parts[0] == "ld";
    if (bytes == 0 || values.size() < 2) return "";
    if (is_load) std::rotate(values.begin(), values.end() - 1, values.end());  // the address first
    return fmt::format(
        "{}{}<{}>({});", ns, is_load ? "load" : "store", bytes, fmt::join(values, ", "));
  }
  return "";
}

}  // namespace rmsnorm::cpu_device
