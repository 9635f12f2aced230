#include "common/cpu_device/watch/shadow.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr std::uint8_t kAllBytes = 0xf;
constexpr std::size_t kMostAccesses = 4096;  // of a word: spinning threads add without end

/// The bits of the bytes in [begin, end) that are in a word.
std::uint8_t bits(std::size_t word, std::size_t begin, std::size_t end) {
  const std::size_t first = std::max(begin, word * kWordBytes) - word * kWordBytes;
  const std::size_t last = std::min(end - word * kWordBytes, kWordBytes);
  return static_cast<std::uint8_t>(((1u << last) - (1u << first)) & kAllBytes);
}

bool is_same_thread(const PastAccess& a, const PastAccess& b) {
  return a.thread == b.thread && a.block == b.block;
}

}  // namespace

void Shadow::set_byte_initialized(std::size_t offset) {
  const std::size_t number = offset / kWordBytes;
  if (has_value_.size() <= number) has_value_.resize(number + 1);
  has_value_[number] =
      static_cast<std::uint8_t>(has_value_[number] | bits(number, offset, offset + 1));
}

Shadow::Word& Shadow::word(std::size_t number) {
  if (of_.words.size() <= number) of_.words.resize(number + 1);
  Word& word = of_.words[number];
  if (word.generation != of_.generation) {
    word.generation = of_.generation;
    word.written = all_have_values_             ? kAllBytes
                   : number < has_value_.size() ? has_value_[number]
                                                : 0;
    word.loads.clear();
    word.stores.clear();
  }
  return word;
}

void Shadow::filled(std::size_t offset, std::size_t bytes) {
  const std::size_t end = offset + bytes;
  for (std::size_t i = offset / kWordBytes; i * kWordBytes < end; ++i) {
    Word& filled = word(i);
    filled.written = static_cast<std::uint8_t>(filled.written | bits(i, offset, end));
  }
}

/// Of each kind, the last accesses of a few threads to each byte; none from before the launch.
/// Unless `also_of_epoch`, all of the running block since its last barrier.
void Shadow::keep_latest(const Order& order, Accesses& accesses, bool also_of_epoch) {
  constexpr int kThreads = 4;
  struct OfByte {
    int kept = 0;
    const PastAccess* last = nullptr;
  };
  std::array<std::array<OfByte, kWordBytes>, 1 + kScopes> all;  // plain, strong for each scope
  auto kept = accesses.end();
  for (auto one = accesses.end(); one != accesses.begin();) {
    --one;
    if (!order.is_of_launch(*one)) break;
    auto& bytes = all[one->is_strong ? 1 + static_cast<std::size_t>(one->scope) : 0];
    const bool is_of_epoch = !also_of_epoch && order.is_of_epoch(*one);
    bool is_needed = is_of_epoch;
    for (std::size_t i = 0; i < kWordBytes && !is_needed; ++i) {
      const auto& [count, last] = bytes[i];
      const bool is_known = count == kThreads || (last != nullptr && is_same_thread(*last, *one));
      is_needed = (one->bytes >> i & 1) != 0 && !is_known;
    }
    if (!is_needed) continue;
    *--kept = *one;
    for (std::size_t i = 0; i < kWordBytes && !is_of_epoch; ++i) {
      if ((kept->bytes >> i & 1) != 0) bytes[i] = {bytes[i].kept + 1, &*kept};
    }
  }
  accesses.erase(accesses.begin(), kept);
}

/// Prunes a word, before the first access in each epoch.
void Shadow::prune(const Order& order, Word& word) const {
  if (word.epoch == order.epoch()) return;
  word.epoch = order.epoch();
  const auto tidy_up = [&](Accesses& accesses) {
    if (is_of_block_) {
      accesses.clear();
    } else if (!accesses.empty()) {
      keep_latest(order, accesses, false);
    }
  };
  tidy_up(word.loads);
  tidy_up(word.stores);
}

/// Adds an access. It replaces the thread's own access before, if that implies no more.
void Shadow::add(const Order& order, Accesses& accesses, const PastAccess& now) {
  if (!accesses.empty()) {
    PastAccess& last = accesses.back();
    const bool says_more = (last.bytes & ~now.bytes) != 0 || (!last.is_strong && now.is_strong) ||
                           (last.is_volatile && !now.is_volatile) || last.scope < now.scope ||
                           (last.kind != AccessKind::atomic && now.kind == AccessKind::atomic);
    if (is_same_thread(last, now) && !says_more) {
      last = now;
      return;
    }
  }
  if (accesses.size() == kMostAccesses) keep_latest(order, accesses, true);
  accesses.push_back(now);
}

Finding Shadow::access(const Order& order, std::size_t offset, int bytes, PastAccess now) {
  Finding finding;
  const auto find = [&](const Accesses& accesses) {
    if (finding.is_race) return;
    for (auto past = accesses.begin(); past != accesses.end(); ++past) {
      if (!is_conflict(order, *past, now) || order.is_before(*past, now.thread)) continue;
      // An atomic operation has seen those that came before it: the last to count may set the
      // counter back.
      const bool is_seen = past->kind == AccessKind::atomic &&
                           std::any_of(past + 1, accesses.end(), [&](const PastAccess& later) {
                             return later.kind == AccessKind::atomic &&
                                    later.bytes == past->bytes &&
                                    order.is_before(later, now.thread);
                           });
      if (is_seen) continue;
      finding.is_race = true;
      finding.other = *past;
      return;
    }
  };
  const std::size_t end = offset + static_cast<std::size_t>(bytes);
  for (std::size_t i = offset / kWordBytes; i * kWordBytes < end; ++i) {
    Word& own = word(i);
    prune(order, own);
    const std::uint8_t byte_mask = bits(i, offset, end);
    now.bytes = byte_mask & kAllBytes;
    find(own.stores);
    if (now.kind != AccessKind::load) find(own.loads);
    if (now.kind != AccessKind::store && (byte_mask & ~own.written) != 0)
      finding.is_unwritten = true;
    if (now.kind != AccessKind::load)
      own.written = static_cast<std::uint8_t>(own.written | byte_mask);
    Accesses& alike = now.kind == AccessKind::load ? static_cast<Accesses&>(own.loads) : own.stores;
    add(order, alike, now);
  }
  return finding;
}

const PastAccess* Shadow::stored(const Order& order, std::size_t offset, std::size_t bytes) {
  const std::size_t end = offset + bytes;
  for (std::size_t i = offset / kWordBytes; i * kWordBytes < end; ++i) {
    const Accesses& stores = word(i).stores;
    const std::uint8_t wanted = bits(i, offset, end);
    for (auto store = stores.rbegin(); store != stores.rend(); ++store) {
      if ((store->bytes & wanted) != 0 && order.is_of_launch(*store)) return &*store;
    }
  }
  return nullptr;
}

}  // namespace rmsnorm::cpu_device
