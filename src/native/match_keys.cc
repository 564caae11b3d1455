#include "native/match_keys.h"

#include <algorithm>
#include <cstring>

#include "base/hex_run.h"
#include "memory/budget.h"
#include "native/endpoint.h"

namespace verbena::native {

bool load_match(Op& op, Bytes body) {
  const auto match = wire::decode_match(body);
  if (!match) return false;
  op.bucket.assign(match->bucket);
  op.list.prefix.clear();
  if (op.match == nullptr) op.match = std::make_unique<MatchRequest>();
  MatchRequest& request = *op.match;
  request.window = match->window;
  request.details = match->details;
  request.width = match->width;
  request.lease_ms = match->lease_ms;
  request.lease = match->lease;
  request.prefix.assign(match->prefix);
  request.counts.assign(match->counts.begin(), match->counts.end());
  request.keys.assign(match->keys.begin(), match->keys.end());
  return true;
}

Result<void> MatchKeys::open(Op& op) {
  op_ = &op;
  request_ = op.match.get();
  here_ = request_->keys;
  const size_t prefix = request_->prefix.size(), width = request_->width;
  uint64_t keys = 0;
  for (const uint32_t count : request_->counts) keys += count;
  if (width != 0) {
    const size_t fit = texts_max / (prefix + 2 * width);
    lay_out(prefix + 2 * width, std::min<uint64_t>(keys, std::clamp(fit, whole_keys_max, cache::KeyRun::count_max)));
  } else {
    lay_out(wire::key_size_max, std::min<uint64_t>(keys, whole_keys_max));
  }
  const wire::Descriptor& lent = request_->window;
  if (lent.size == 0) return {};
  end_ = keys * width;
  ++op.stream->moved.windows;
  VB_ASSIGN(window_, op.endpoint->port().open_window(op.stream->peer, {lent.base, lent.size, lent.key},
                                                     fabric::Access::server_reads));
  return {};
}

Task<Result<void>> MatchKeys::fetch() {
  const size_t wanted = std::min<uint64_t>(piece_max, end_ - at_);
  if (lease_.size() == 0) {
    memory::Share share(op_->endpoint->door().service.arena, op_->caller.peer_address, wanted);
    VB_CO_ASSIGN(lease_, co_await share.lease(wanted));
  }
  const size_t size = std::min(wanted, lease_.size()) / request_->width * request_->width;
  const MutableBytes into = lease_.bytes().first(size);
  if (window_->immediate_size_max() >= size) {
    VB_CO_TRY(window_->read_now(into, at_));
  } else {
    VB_CO_TRY(co_await window_->read(into, at_, deadline_in(op_->operation_deadline())));
  }
  at_ += size;
  here_ = into;
  co_return Result<void>{};
}

void MatchKeys::lay_out(size_t key_size, size_t group) {
  stride_ = key_size;
  texts_ = std::make_unique_for_overwrite<char[]>(key_size * group);
  keys_.reserve(group);
  for (size_t at = 0; at < key_size * group; at += stride_) {
    std::memcpy(texts_.get() + at, request_->prefix.data(), request_->prefix.size());
    keys_.emplace_back(texts_.get() + at, key_size);
  }
}

MatchKeys::Some MatchKeys::next(size_t most) {
  most = std::min(most, keys_.size());
  const size_t width = request_->width, prefix = request_->prefix.size();
  size_t count = 0;
  if (width == 0) {
    wire::Reader in(here_);
    for (; count < most; ++count) {
      const std::string_view rest = wire::get_text16(in, here_.size());
      char* const text = texts_.get() + count * stride_;
      std::ranges::copy(rest, text + prefix);
      keys_[count] = {text, prefix + rest.size()};
    }
    here_ = here_.last(in.left());
    return Some(keys_).first(count);
  }
  count = std::min(most, here_.size() / width);
  write_hex_run(here_.first(count * width), width, texts_.get() + prefix, stride_);
  here_ = here_.subspan(count * width);
  return Some(keys_).first(count);
}

cache::KeyRun MatchKeys::run(Some keys) const {
  return {op_->bucket, keys.data()->data(), stride_, keys.size(), request_->prefix.size()};
}

void MatchKeys::skip(size_t keys) {
  if (request_->width == 0) {
    wire::Reader in(here_);
    for (; keys != 0; --keys) wire::get_text16(in, here_.size());
    here_ = here_.last(in.left());
    return;
  }
  const uint64_t bytes = uint64_t{keys} * request_->width;
  const size_t from_here = std::min<uint64_t>(bytes, here_.size());
  here_ = here_.subspan(from_here);
  at_ += bytes - from_here;
}

}  // namespace verbena::native
