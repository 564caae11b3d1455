#include "http/sha256_source.h"

namespace verbena::http {

Sha256Source::Sha256Source(memory::Source& wire, const Sha256& expected) : wire_(wire), expected_(expected) {}

Task<Result<size_t>> Sha256Source::read(MutableBytes into) {
  if (error_) co_return std::unexpected(*error_);
  if (ended_) co_return size_t{0};
  auto n = co_await wire_.read(into);
  if (!n) {
    error_ = n.error();
    co_return std::unexpected(*error_);
  }
  const Bytes bytes = Bytes(into).first(*n);
  md5_ != nullptr ? digest_.update_with(*md5_, bytes) : digest_.update(bytes);
  read_ += *n;
  // A reader that knows the size may never read again: the last byte must report a mismatch.
  ended_ = *n < into.size() || read_ == wire_.size();
  if (ended_ && digest_.finish() != expected_) {
    error_ = Error{Errc::content_sha256_mismatch, 0, "the body does not have the SHA-256 that was signed"};
    co_return std::unexpected(*error_);
  }
  co_return *n;
}

}  // namespace verbena::http
