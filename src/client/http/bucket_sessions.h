// Sessions of directory buckets (S3 Express): five-minute credentials that the client requests by itself, as SDKs do,
// and signs its object requests with. Bounded; thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include "auth/auth.h"
#include "client/outcome.h"

namespace verbena::client {

class BucketSessions {
 public:
  using Credentials = std::shared_ptr<const auth::Credentials>;  // null: sign with the long-term keys
  static constexpr auto life = std::chrono::minutes(4), rest = std::chrono::minutes(1);
  static constexpr size_t buckets_max = 64;

  static bool is_directory(std::string_view bucket) { return bucket.ends_with("--x-s3"); }

  // Credentials to sign with. Calls `open()` for a new session when none is valid for a while. If it fails (the server
  // has no sessions, or the keys may not open a writing one), the long-term keys sign for a time. One caller opens a
  // bucket's session, and those that want the same one wait for it. `cancelled`: after a stop, which says nothing about
  // the server.
  template <class Open>
  Outcome<Credentials> get(const std::string& bucket, const std::stop_token& stop, const Open& open) {
    std::unique_lock lock(mutex_);
    if (!opened_.wait(lock, stop, [&] { return !opening_.contains(bucket); })) {
      return fault(ErrorCode::cancelled, "cancelled by the caller");
    }
    const auto now = std::chrono::steady_clock::now();
    if (const auto known = kept_.find(bucket); known != kept_.end() && now < known->second.until) {
      return known->second.credentials;
    }
    opening_.insert(bucket);
    lock.unlock();
    const auto ended = [&] {
      lock.lock();
      opening_.erase(bucket);
      opened_.notify_all();
    };
    Outcome<auth::Credentials> opened;
    try {
      opened = open();
    } catch (...) {
      ended();
      throw;
    }
    ended();
    const bool made = opened.has_value();
    if (!made && stop.stop_requested()) return fault(ErrorCode::cancelled, "cancelled by the caller");
    if (kept_.size() >= buckets_max) kept_.clear();
    Kept& kept = kept_[bucket];
    kept.credentials = made ? std::make_shared<const auth::Credentials>(std::move(*opened)) : nullptr;
    kept.until = now + (made ? std::chrono::duration_cast<std::chrono::seconds>(life) : rest);
    return kept.credentials;
  }

  // Drops credentials that the server no longer accepts.
  void forget(const std::string& bucket, const Credentials& ended) {
    const std::lock_guard lock(mutex_);
    const auto known = kept_.find(bucket);
    if (known != kept_.end() && known->second.credentials == ended) kept_.erase(known);
  }

 private:
  struct Kept {
    Credentials credentials;
    std::chrono::steady_clock::time_point until;
  };
  std::mutex mutex_;
  std::condition_variable_any opened_;
  std::set<std::string, std::less<>> opening_;
  std::map<std::string, Kept> kept_;
};

}  // namespace verbena::client
