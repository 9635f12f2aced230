#include "common/cpu_device/watch/old_values.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rmsnorm::cpu_device {

void OldValues::begin_launch() {
  words_.clear();
  last_fences_.clear();
  unfenced_.clear();
  changed_ = nullptr;
}

void OldValues::store(const Order& order, std::uintptr_t number, const Access& access, int thread) {
  if (words_.empty() && !access.is_strong) return;
  constexpr int kMost = static_cast<int>(kMostBytes);
  for (int behind = 1 - kMost; behind < access.bytes; ++behind) {  // those that it touches
    const auto known = words_.find(number + static_cast<std::uintptr_t>(behind));
    if (known != words_.end() && behind + known->second.bytes > 0) words_.erase(known);
  }
  if (!access.is_strong || static_cast<std::size_t>(access.bytes) > kMostBytes) return;
  Word& word = words_[number];
  std::memcpy(word.before.data(), access.address, static_cast<std::size_t>(access.bytes));
  word.flag_before = order.flag(number);
  word.bytes = access.bytes;
  word.store = order.now(thread);
  word.pc = access.pc;
  unfenced_[number_of(word.store)].push_back(number);
}

void OldValues::fence(const Timestamp& now, Scope scope, Scope widest) {
  const std::uint64_t thread = number_of(now);
  const auto end = static_cast<std::size_t>(scope) + 1;
  Fences& last = last_fences_[thread];
  std::fill_n(last.begin(), end, ++fences_);
  const auto unfenced = unfenced_.find(thread);
  if (unfenced == unfenced_.end()) return;
  for (const std::uintptr_t number : unfenced->second) {
    const auto word = words_.find(number);
    if (word == words_.end() || number_of(word->second.store) != thread) continue;
    for (std::size_t i = 0; i < end; ++i) {
      std::uint64_t& next = word->second.fences[i];
      if (next == 0) next = fences_;
    }
  }
  if (scope >= widest) unfenced_.erase(unfenced);
}

const OldValues::Word* OldValues::load(
    const Order& order, std::uintptr_t number, const Access& access, int thread) {
  constexpr int kOldReads = 2;              // of one thread: loops that wait have to end
  constexpr std::size_t kMostReaders = 64;  // more would take time
  const auto found = words_.find(number);
  if (found == words_.end() || found->second.bytes != access.bytes) return nullptr;
  Word& word = found->second;
  const Timestamp now = order.now(thread);
  const auto fences = last_fences_.find(number_of(now));
  const auto scope = static_cast<std::size_t>(order.scope_with(word.store.block));
  const bool is_fenced = word.fences[scope] != 0 && fences != last_fences_.end() &&
                         fences->second[scope] > word.fences[scope];
  const bool is_known = is_fenced || order.is_before(word.store, thread) ||
                        word.readers.size() >= kMostReaders ||
                        std::ranges::any_of(word.readers, [&](const Word::Reader& reader) {
                          return reader.is_new && order.is_before(reader.first, thread);
                        });
  if (is_known) return nullptr;
  auto own = std::ranges::find_if(word.readers, [&](const Word::Reader& reader) {
    return reader.first.block == now.block && reader.first.thread == now.thread;
  });
  if (own == word.readers.end()) own = word.readers.insert(own, {.first = now});
  own->first = now;
  if (own->old_reads == kOldReads) {
    own->is_new = true;
    return nullptr;
  }
  ++own->old_reads;
  changed_ = const_cast<void*>(access.address);
  changed_bytes_ = access.bytes;
  std::memcpy(newest_.data(), changed_, static_cast<std::size_t>(changed_bytes_));
  std::memcpy(changed_, word.before.data(), static_cast<std::size_t>(changed_bytes_));
  return &word;
}

void OldValues::restore() {
  void* const changed = std::exchange(changed_, nullptr);
  if (changed != nullptr)
    std::memcpy(changed, newest_.data(), static_cast<std::size_t>(changed_bytes_));
}

}  // namespace rmsnorm::cpu_device
