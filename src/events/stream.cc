#include "events/stream.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>

#include "base/bytes.h"
#include "events/network_guard.h"

namespace verbena::events {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr size_t received_max = 16 * KiB;  // at once

// Before an answer, a connection that the target has closed is no other than one that broke.
std::unexpected<Error> stream_error(const Error& error, const char* what) {
  return fail(error == Errc::closed ? Errc::connection_failed : error.code, what, error.sys);
}

}  // namespace

Result<void> Stream::connect() {
  close();
  VB_ASSIGN(const net::TcpEndpoints addresses, target_addresses(settings_, cut_));
  const Deadline until = deadline_in(settings_.timeout);
  auto made = net::Stream::connect(io_, addresses, until, cut_);
  if (!made) return stream_error(made.error(), "no connection to the target");
  stream_ = std::move(*made);
  stream_->limit(settings_.timeout, until);
  return {};
}

Result<void> Stream::start_tls() {
  // What came before is not protected: it must not be taken for what comes after.
  if (!in_.empty()) return fail(Errc::connection_failed, "the target spoke before TLS began");
  const auto begun = stream_->start_tls(tls_, settings_.host);
  if (!begun) return stream_error(begun.error(), "the target's TLS, or its certificate");
  return {};
}

Result<void> Stream::write(std::string_view text) {
  net::error_code ec;
  boost::asio::write(*stream_, boost::asio::buffer(text), ec);
  if (ec) return stream_error(net::stream_error(ec), "the target takes nothing");
  return {};
}

Result<std::string> Stream::read_line(size_t most) {
  for (;;) {
    const size_t end = in_.find(line_end);
    if (end != std::string::npos && end + line_end.size() <= most) return take(end, line_end.size());
    if (in_.size() >= most) return fail(Errc::invalid_request, "the target's answer is too long");
    VB_TRY(receive(most - in_.size()));
  }
}

Result<std::string> Stream::read_bytes(size_t size) {
  while (in_.size() < size) VB_TRY(receive(size - in_.size()));
  return take(size, 0);
}

Result<void> Stream::receive(size_t most) {
  const size_t before = in_.size();
  in_.resize(before + std::min(most, received_max));
  net::error_code ec;
  const size_t n = stream_->read_some(boost::asio::buffer(in_.data() + before, in_.size() - before), ec);
  in_.resize(before + n);
  if (ec) return stream_error(net::stream_error(ec), "no answer of the target");
  return {};
}

std::string Stream::take(size_t size, size_t with_end) {
  std::string taken = in_.substr(0, size);
  in_.erase(0, size + with_end);
  return taken;
}

void Stream::close() {
  stream_.reset();
  in_.clear();
}

}  // namespace verbena::events
