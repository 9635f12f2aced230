#include "common/records/result.hpp"

namespace rmsnorm {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::unsupported:
      return "unsupported";
  }
  return "";
}

const char* to_string(Disturbance disturbance) {
  return disturbance == Disturbance::power ? "power" : "heat";
}

const char* in_words(Disturbance disturbance) {
  return disturbance == Disturbance::power ? "at the power cap" : "at the heat cap";
}

bool is_lesson(std::string_view implementation) {
  return !implementation.empty() && implementation[0] >= '0' && implementation[0] <= '9';
}

bool is_variant(std::string_view slug) {
  return slug.find('/') != slug.npos;
}

std::optional<double> percent_of_roof(const Result& result) {
  if (!result.gbps || !result.roof_gbps || !(*result.roof_gbps > 0)) return std::nullopt;
  return 100 * *result.gbps / *result.roof_gbps;
}

std::string cache_text(const Result& result) {
  return result.cache ? to_string(*result.cache) : "";
}

}  // namespace rmsnorm
