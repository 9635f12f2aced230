#pragma once
/// \file
/// What is said about mistakes.

#include <string>
#include <vector>

#include "common/cpu_device/scheduler/mistake.hpp"

namespace rmsnorm::cpu_device {

/// What is said about one kind.
struct Sentence {
  Mistake mistake;          ///< this one
  const char* what;         ///< what happened, without a full stop; {} stands for a word
  const char* advice;       ///< one sentence, without a full stop, with the same words
  bool is_symptom = false;  ///< another mistake may be behind it, to be named first
};

/// The sentence about a mistake.
const Sentence& sentence_of(Mistake mistake);

/// A part of a sentence with these words in it.
std::string worded(const char* text, const std::vector<Word>& words);

/// The places among the words, as text: with the kind, they tell one mistake from another.
std::string places_in(const std::vector<Word>& words);

}  // namespace rmsnorm::cpu_device
