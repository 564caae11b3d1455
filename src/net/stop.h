// The wish to end what waits: a caller's token, a flag of the server's, or none.
#pragma once

#include <atomic>
#include <stop_token>
#include <utility>

namespace verbena::net {

class Stop {
 public:
  Stop() = default;
  Stop(std::stop_token token) : token_(std::move(token)) {}
  // `flag` outlives this.
  Stop(const std::atomic<bool>& flag) : flag_(&flag) {}

  bool requested() const { return token_.stop_requested() || (flag_ != nullptr && flag_->load()); }
  bool possible() const { return token_.stop_possible() || flag_ != nullptr; }

 private:
  std::stop_token token_;
  const std::atomic<bool>* flag_ = nullptr;
};

}  // namespace verbena::net
