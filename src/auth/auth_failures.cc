#include "auth/auth_failures.h"

#include <algorithm>

#include "auth/canonical_request.h"
#include "auth/claim.h"
#include "auth/version2.h"
#include "base/client_counts.h"

namespace verbena::auth {
namespace {

// The access key that a request claims, parsed as by the verifier; empty for none.
std::string claimed_key(const RequestView& request) {
  const auto arguments = parse_query(request.query);
  if (!arguments) return {};
  const auto version2 = parse_version2(request, *arguments);
  if (version2 && *version2) return (*version2)->access_key;
  const auto claim = parse_claim(request, *arguments, empty_sha256);
  return claim && *claim ? std::string((*claim)->access_key) : std::string();
}

// The entry to count under; empty where failures are not counted.
std::string entry_name(std::string_view peer, std::string_view key) {
  const std::string client = client_of(peer);
  if (key.empty() || is_loopback_client(client)) return {};
  return std::string(client).append("\n").append(key);
}

// No access key has a blank.
constexpr std::string_view any_form = "a form";

}  // namespace

Result<void> AuthFailures::check_claim(std::string_view peer, const RequestView& request) const {
  if (clock_.now_s() >= blocked_until_s_.load(std::memory_order_relaxed)) return {};
  return check_entry(entry_name(peer, claimed_key(request)));
}

Result<void> AuthFailures::check_form(std::string_view peer) const {
  if (clock_.now_s() >= blocked_until_s_.load(std::memory_order_relaxed)) return {};
  return check_entry(entry_name(peer, any_form));
}

Result<void> AuthFailures::check_entry(const std::string& name) const {
  if (name.empty()) return {};
  const std::lock_guard lock(mutex_);
  const auto found = forgiven_at_s_.find(name);
  if (found == forgiven_at_s_.end()) return {};
  const int64_t left_s = found->second - clock_.now_s();
  if (left_s <= (limits_.tries_max - 1) * limits_.forgiven_s) return {};
  return fail(Errc::slow_down, "Too many wrong signatures for this access key came from this address. Wait a while.");
}

void AuthFailures::note(std::string_view peer, const RequestView& request, const Error& error) {
  if (error.code == Errc::signature_does_not_match) count(entry_name(peer, claimed_key(request)));
}

void AuthFailures::note_form(std::string_view peer) { count(entry_name(peer, any_form)); }

void AuthFailures::count(std::string name) {
  if (name.empty() || limits_.tries_max == 0) return;
  const int64_t now_s = clock_.now_s();
  const int64_t full_s = limits_.tries_max * limits_.forgiven_s;
  const std::lock_guard lock(mutex_);
  auto found = forgiven_at_s_.find(name);
  if (found == forgiven_at_s_.end()) {
    make_room(now_s);
    found = forgiven_at_s_.emplace(std::move(name), now_s).first;
  }
  int64_t& until_s = found->second;
  until_s = std::min(std::max(until_s, now_s) + limits_.forgiven_s, now_s + full_s);
  const int64_t left_s = until_s - now_s;
  if (left_s <= full_s - limits_.forgiven_s) return;
  blocked_until_s_ = std::max(blocked_until_s_.load(), until_s);
}

void AuthFailures::make_room(int64_t now_s) {
  if (forgiven_at_s_.size() < limits_.entries_max) return;
  std::erase_if(forgiven_at_s_, [now_s](const auto& entry) { return entry.second <= now_s; });
  if (forgiven_at_s_.size() < limits_.entries_max) return;
  const auto sooner = [](const auto& a, const auto& b) { return a.second < b.second; };
  forgiven_at_s_.erase(std::min_element(forgiven_at_s_.begin(), forgiven_at_s_.end(), sooner));
}

}  // namespace verbena::auth
